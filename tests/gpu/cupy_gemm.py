"""cuBLAS, cuFFT and NVRTC through cupy. Prints every NVIDIA file that is mapped."""

import cupy

from mapped import show_mapped

a = cupy.ones((64, 64), dtype=cupy.float32)
assert float((a @ a).sum()) == 262144.0
assert float(abs(cupy.fft.fft(a)).sum()) == 4096.0
assert float(cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * 2", "twice")(a).sum()) == 8192.0
print("gemm, fft and a kernel", flush=True)
show_mapped()
