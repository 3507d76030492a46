# Shortens a row of tests/gpu/run.sh that is ok, for docs/gpu-results.md: `sed -E -f short.sed` in a UTF-8 locale.
# Directories that the page explains
s#/usr/lib/x86_64-linux-gnu#DEBIAN#g
s#/usr/local/cuda(-[0-9.]+)?(/targets/[^/ |;:]+)?#TOOLKIT#g
s#nvidia/cudnn/lib#WHEEL#g
s#(FIRST|OTHER)/WHEEL#\1#g
s#LD_LIBRARY_PATH=(torn:)?/opt/torch[^ ;]*…#LD_LIBRARY_PATH=\1WHEEL#g
s#of /opt/torch[^ ;]*…#of WHEEL#g
s#shim from (older|newer)/package[^;]*…#shim of the \1 package#g
s#nvrtc/nvidia/cuda_nvrtc/lib#nvrtc#g
s#/tmp/tmp[^ ;)]*…#…#g
s#(recorded 14 library families in …/pr…); [^|]*#\1 #g
# Lists of files: their number
s#([0-9]+) files: [^|;]* from [^|;]*[^|; ](; [^|;]* from [^|;]*[^|; ])*#\1 files#g
s#mixed: ([a-z]+) from [^|;]*[^|; ]#mixed \1#g
s#([0-9]+) files of cuDNN from ([^|; ]+)#\1 of \2#g
# Predictions, verdicts
s#(--as-is|as planned): ([0-9]+) files of [0-9]+ families, the model was wrong about 0#\2 files as predicted#g
s#passed +\(([0-9]+) files, ([0-9]+) computations right, 0 not supported here\)#passed: \1 files, \2 computations#g
s#as it is: (failed )?##g
s# at [a-z-]+ [^ |)]+\)#)#g
# What a row checks itself
s#; with a lock of driver 999: [^|]*#; refused with a lock of driver 999 #g
s#; found ([^|;]*; )?[^|;]*compute capability [0-9.]+##g
s#status 0; (cuDNN [0-9]+, shim)#\1#g
s#(mixed|incomplete) \([^|)]*\)#\1#g
s#shim from (DEBIAN|WHEEL) and parts from \1#all from \1#g
s#breaks; , shim from nowhere and parts from nowhere#breaks#g
# The beginning of a long message
s#([^|; ][^|;]{43}[^|; ]) *[^|; ][^|;]{3,}[^|; ]#\1…#g
# Ends
s#; +\|# |#g
s# +# #g
