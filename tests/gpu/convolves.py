"""A convolution through torch, which fails where cuDNN is mixed; the process goes on with what it has mapped."""

import torch

try:
    torch.nn.functional.conv2d(torch.randn(1, 3, 8, 8, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda"))
except RuntimeError as error:
    print(error)
