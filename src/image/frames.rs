//! Zstandard: frames one after the other, some of which hold no data.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Blocks have at most 128 KiB; some at once cost fewer calls.
const BLOCKS: usize = 8;

pub(super) struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(input: R) -> Frames<R> {
        Frames {
            input,
            decoder: FrameDecoder::new(),
            is_in_frame: false,
        }
    }

    /// Begins the next frame that has data. Returns false at the end of the input.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(
                        &mut self.input.by_ref().take(u64::from(length)),
                        &mut io::sink(),
                    )?;
                }
                Err(error) => return Err(damaged(&error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.is_in_frame && !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(BLOCKS);
                self.decoder
                    .decode_blocks(&mut self.input, blocks)
                    .map_err(|error| damaged(&error))?;
                continue;
            }
            self.is_in_frame = self.begin()?;
            if !self.is_in_frame {
                return Ok(0);
            }
        }
    }
}

fn damaged(error: &FrameDecoderError) -> io::Error {
    io::Error::other(format!("its compression is damaged: {error}"))
}
