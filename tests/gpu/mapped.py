"""Which of NVIDIA's libraries this process has mapped."""

import re

LIBRARY = re.compile(
    r"/lib(cuda|cudart|cudnn\w*|cublas\w*|nvblas|cufft\w*|curand|cusolver\w*|cusparse\w*|cutensor\w*|cupti|cufile\w*"
    r"|nccl|nvrtc[\w.-]*|nvJitLink|nvshmem_host|nvidia-[\w-]+)\.so[.\d]*$"
)


def show_mapped():
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    for path in sorted(path for path in paths if LIBRARY.search(path)):
        print(path)
