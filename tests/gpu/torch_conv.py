"""A convolution and cuDNN's attention through torch. Prints every NVIDIA file that is mapped; fails off the GPU."""

import sys

import torch

from mapped import show_mapped

failed = False
try:
    print("cudnn", torch.backends.cudnn.version(), flush=True)
    out = torch.nn.functional.conv2d(torch.randn(1, 3, 8, 8, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda"))
    print("convolution", tuple(out.shape), flush=True)
    q = torch.randn(1, 4, 128, 64, device="cuda", dtype=torch.float16)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        print("attention", tuple(torch.nn.functional.scaled_dot_product_attention(q, q, q).shape), flush=True)
except Exception as error:  # whatever it is, the mapped files are worth seeing
    failed = True
    print("error", type(error).__name__, str(error).split("\n")[0][:200], flush=True)
show_mapped()
sys.exit(failed)
