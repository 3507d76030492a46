//! Causes of the status codes and messages of NVIDIA's libraries. `profiles/statuses.toml` explains the fields.

use std::sync::LazyLock;

use super::Fault;
use super::rows::{Status, Statuses};

pub fn statuses() -> &'static Statuses {
    static TABLE: LazyLock<Statuses> = LazyLock::new(|| profile!("statuses"));
    &TABLE
}

impl Statuses {
    /// The cause of a cuDNN status, which does not depend on the release.
    pub fn of_cudnn(&self, code: i64) -> Option<Fault> {
        cause(&self.cudnn, code)
    }

    pub fn of_cuda(&self, code: i64) -> Option<Fault> {
        cause(&self.cuda, code)
    }

    pub fn of_message(&self, line: &str) -> Option<Fault> {
        self.message
            .iter()
            .find(|message| line.contains(&message.text))
            .map(|message| message.cause)
    }
}

/// True for a call of the driver or the runtime: `cuMemAlloc`, `cudaMalloc`, but not `cublasCreate` or `cudnnCreate`.
pub fn is_driver_call(call: &str) -> bool {
    ["cu", "cuda"]
        .into_iter()
        .filter_map(|beginning| call.strip_prefix(beginning))
        .any(|rest| rest.starts_with(char::is_uppercase))
}

fn cause(table: &[Status], code: i64) -> Option<Fault> {
    table.iter().find(|status| status.code == code)?.cause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_cause() {
        let table = statuses();
        let mut codes: Vec<i64> = table.cudnn.iter().map(|status| status.code).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
        assert_eq!(table.of_cudnn(3000), Some(Fault::NoEngine));
        assert_eq!(table.of_cudnn(14), Some(Fault::Incomplete));
        assert_eq!(table.of_cuda(803), Some(Fault::DriverMismatch));
        assert_eq!(table.of_cuda(1), None);
        let line = "Unable to load any of {libcudnn_ops.so.9.10.2, libcudnn_ops.so.9.10}";
        assert_eq!(table.of_message(line), Some(Fault::Incomplete));
    }
}
