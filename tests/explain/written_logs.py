"""Logs of healthy jobs that no computer of the tests can record: jobs on GPUs, under Slurm and in Kubernetes.

The lines have the formats of the sources that are named here: NCCL 2.18 to 2.27 (src/init.cc, src/transport/net_ib.cc,
src/misc/socket.cc, src/plugin/net.cc), PyTorch's ProcessGroupNCCL.cpp and socket.cpp, DeepSpeed's logging, NVIDIA's
container entry points, Slurm and Kubernetes. All numbers and names are made up.
"""
import itertools

NODE = "gpu-a"


def losses(first=1, tag="", last=6):
    return [f"{tag}step {step} loss {2.3 / step ** 0.5:.4f}" for step in range(first, first + last)]


def nccl(version, network, paths, extra=(), ranks=2):
    """What NCCL_DEBUG=INFO prints in a job that ends well."""
    lines = [f"NCCL version {version}+cuda12.4"]
    for rank in range(ranks):
        def say(text, thread=1, rank=rank):
            lines.append(f"{NODE}:{4100 + rank}:{4100 + rank + 60 * thread} [{rank}] NCCL INFO {text}")
        say("cudaDriverVersion 12040", 0)
        say("Bootstrap : Using eth0:10.0.0.11<0>", 0)
        for text in network:
            say(text)
        say(f"ncclCommInitRank comm 0x5581a3c0 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {rank + 1}b000 "
            "commId 0x9d1f2a51ab3b4d0e - Init START")
        say(f"Setting affinity for GPU {rank} to ffff")
        for text in extra:
            say(text)
        say(f"comm 0x5581a3c0 rank {rank} nRanks {ranks} nNodes 1 localRanks {ranks} localRank {rank} MNNVL 0")
        say("Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1")
        say("P2P Chunksize set to 131072")
        for channel in range(2):
            say(f"Channel {channel:02d}/0 : {rank}[{rank}] -> {1 - rank}[{1 - rank}] via {paths}")
        say("Connected all rings")
        say("Connected all trees")
        say("threadThresholds 8/8/64 | 16/8/64 | 512 | 512")
        say("2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer")
        say(f"ncclCommInitRank comm 0x5581a3c0 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} - Init COMPLETE")
    lines += losses()
    for rank in range(ranks):
        lines.append(f"{NODE}:{4100 + rank}:{4300 + rank} [{rank}] NCCL INFO [Service thread] Connection closed by localRank {rank}")
        lines.append(f"{NODE}:{4100 + rank}:{4100 + rank} [{rank}] NCCL INFO comm 0x5581a3c0 rank {rank} nranks {ranks} cudaDev {rank} "
                     f"busId {rank + 1}b000 - Abort COMPLETE")
    return lines


NETWORKS = {
    "socket": ["NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such "
               "file or directory", "NET/Plugin : No plugin found, using internal implementation", "NET/IB : No device found.",
               "NET/Socket : Using [0]eth0:10.0.0.11<0>", "Using network Socket"],
    "plugin-none": ["NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
                    "Failed to open libibverbs.so[.1]", "NET/Socket : Using [0]eth0:10.0.0.11<0> [1]ib0:10.1.0.11<0>",
                    "Using non-device net plugin version 0", "Using network Socket"],
    "ib": ["NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.11<0>", "Using network IB",
           "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 5)", "DMA-BUF is available on GPU device 0"],
    "ib-port-down": ["NET/IB : Got async event : port active", "NET/IB: No device found matching mlx5_9",
                     "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.11<0>", "Using network IB"],
}
EXTRAS = {
    "p2p-off": ["NCCL_P2P_DISABLE set by environment to 1.", "P2P is disabled between connected GPUs 1 and 0. You can repress "
                "this message with NCCL_IGNORE_DISABLED_P2P=1."],
    "p2p-none": ["Could not enable P2P between dev 0(=1b000) and dev 1(=2b000)", "NVLS multicast support is not available on dev 0"],
    "tuner": ["TUNER/Plugin: Plugin load returned 11 : libnccl-net.so: cannot open shared object file: No such file or "
              "directory : when loading libnccl-tuner.so", "TUNER/Plugin: Using internal tuner plugin."],
    "profiler": ["PROFILER/Plugin: Could not find: libnccl-profiler.so.", "NCCL_TIMEOUT is unknown and is ignored",
                 "NCCL_IB_TIMEOUT set by environment to 22.", "NCCL_IB_RETRY_CNT set by environment to 7."],
}

TORCH_LINES = {
    "sockets": ["[W socket.cpp:436] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family "
                "not supported by protocol).", "[W socket.cpp:663] [c10d] The client socket cannot be initialized to connect to "
                "[gpu-a]:29500 (errno: 97 - Address family not supported by protocol).",
                "[W socket.cpp:697] [c10d] The IPv6 network addresses of (gpu-a, 29500) cannot be retrieved (gai error: -2 - Name "
                "or service not known)."],
    "warnings": ["[rank0]:[W1128 03:00:07.117 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform "
                 "barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank "
                 "to GPU mapping is incorrect. Specify device_ids in barrier() to force use of a particular device, or call "
                 "init_process_group() with a device_id."],
    "end": ["[rank0]:[W1128 03:10:07.117 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before "
            "we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group to ensure "
            "that any pending NCCL operations have finished in this process. In rare cases this process can exit before this "
            "point and block the progress of another member of the process group. (function operator())"],
    "info": ["I1128 03:00:05.100 4100 ProcessGroupNCCL.cpp:905] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL initialization options: "
             "size: 2, global rank: 0, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0, SPLIT_FROM: 0, SPLIT_COLOR: -2, PG Name: 0",
             "I1128 03:00:05.101 4100 ProcessGroupNCCL.cpp:914] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL environments: NCCL "
             "version: 2.21.5, TORCH_NCCL_ASYNC_ERROR_HANDLING: 1, TORCH_NCCL_DUMP_ON_TIMEOUT: 0, TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC: "
             "60000, TORCH_NCCL_DESYNC_DEBUG: 0, TORCH_NCCL_ENABLE_TIMING: 0, TORCH_NCCL_BLOCKING_WAIT: 0, TORCH_DISTRIBUTED_DEBUG: "
             "OFF, TORCH_NCCL_ENABLE_MONITORING: 1, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 480, TORCH_NCCL_TRACE_BUFFER_SIZE: 0"],
    "deprecated": ["[W Utils.hpp:133] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use "
                   "TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function operator())",
                   "[W CUDAAllocatorConfig.h:28] Warning: expandable_segments not supported on this platform (function operator())"],
    "reducer": ["[W reducer.cpp:1389] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any "
                "unused parameters in the forward pass. This flag results in an extra traversal of the autograd graph every "
                "iteration,  which can adversely affect performance.", "[rank1]:[W reducer.cpp:347] Warning: Grad strides do not "
                "match bucket view strides. This may indicate grad was not created according to the gradient layout contract, or "
                "that the param's strides changed since DDP was constructed.  This is not an error, but may impair performance."],
}

TABLES = {
    "nvidia-smi": """
Sat Nov 28 03:00:00 2026
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|=========================================+======================+======================|
|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1B:00.0 Off |                    0 |
| N/A   31C    P0             131W / 700W |  80995MiB / 81559MiB |    100%      Default |
|   1  NVIDIA H100 80GB HBM3          On  | 00000000:2B:00.0 Off |                  ERR! |
+-----------------------------------------+----------------------+----------------------+
| Processes:  No running processes found                                                |
+---------------------------------------------------------------------------------------+""",
    "memory-summary": """
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 0            |        cudaMalloc retries: 3         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
| Allocated memory      |  71424 MiB |  77109 MiB |  93911 GiB |  93841 GiB |
|===========================================================================|""",
    "pip-list": """
Package                  Version
------------------------ ------------
accelerate               1.2.1
deepspeed                0.15.4
nvidia-nccl-cu12         2.21.5
nvidia-cuda-runtime-cu12 12.4.127
oom-killer-metrics       0.3.1
retry-on-timeout         1.0
torch                    2.5.1+cu124""",
    "sacct": """
JobID           JobName  Partition      State ExitCode
------------ ---------- ---------- ---------- --------
4709              train        gpu     FAILED      1:0
4710              train        gpu OUT_OF_ME+    0:125
4711              train        gpu  NODE_FAIL      0:0
4712              train        gpu    TIMEOUT      0:0
4713              train        gpu  PREEMPTED      0:0
4714              train        gpu    RUNNING      0:0""",
    "limits": """
core file size              (blocks, -c) 0
max locked memory           (kbytes, -l) unlimited
open files                          (-n) 1024
max user processes                  (-u) 4096
Filesystem      Size  Used Avail Use% Mounted on
shm              64M   60M  4.0M  94% /dev/shm
/dev/nvme0n1    3.5T  3.4T   12G 100% /scratch""",
    "nvidia-container": """
== PyTorch ==
NVIDIA Release 24.10 (build 114410972)
PyTorch Version 2.5.0a0+e000cf0
NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be
   insufficient for PyTorch.  NVIDIA recommends the use of the following flags:
   docker run --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 ...
NOTE: CUDA Forward Compatibility mode ENABLED.
  Using CUDA 12.6 driver version 560.35.03 with kernel driver version 535.161.08.""",
    "slurm": """
srun: job 4714 queued and waiting for resources
srun: job 4714 has been allocated resources
slurmstepd: error: couldn't chdir to `/home/user/old': No such file or directory: going to /tmp instead
slurm_load_jobs: previous job 4710 ended with OUT_OF_MEMORY, this one asks for 64 GB
Job 4714 on gpu-a,gpu-b, requeued 2 times after NODE_FAIL""",
    "kubernetes": """
  Type     Reason            Age   From               Message
  Warning  FailedScheduling  9m    default-scheduler  0/12 nodes are available: 12 Insufficient nvidia.com/gpu.
  Normal   Scheduled         7m    default-scheduler  Successfully assigned ml/job-worker-0 to gpu-a
  Normal   Pulled            6m    kubelet            Container image "train:1" already present on machine
  Normal   Started           6m    kubelet            Started container pytorch""",
    "deepspeed": """
[2026-11-28 03:00:01,117] [INFO] [real_accelerator.py:219:get_accelerator] Setting ds_accelerator to cuda (auto detect)
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
 [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.5
[2026-11-28 03:00:03,201] [INFO] [comm.py:652:init_distributed] cdb=None
[2026-11-28 03:00:09,482] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
[2026-11-28 03:00:10,015] [WARNING] [lr_schedules.py:690:get_lr] Attempting to get learning rate from scheduler before it has started""",
    "accelerate": """
The following values were not passed to `accelerate launch` and had defaults used instead:
	`--num_machines` was set to a value of `1`
	`--mixed_precision` was set to a value of `'no'`
	`--dynamo_backend` was set to a value of `'no'`
To avoid this warning pass in values for each of the problematic parameters or run `accelerate config`.
Detected kernel version 4.18.0, which is below the recommended minimum of 5.5.0; this can cause the process to hang. It is recommended to upgrade the kernel to the minimum version or higher.""",
    "bus": """
CUDA_VISIBLE_DEVICES=0,1,2,3
        GPU0    GPU1    mlx5_0  CPU Affinity
GPU0     X      NV18    PXB     0-47
GPU1    NV18     X      PXB     0-47
p2pBandwidthLatencyTest: peer access 0<->1 enabled
IBV_EVENT_PORT_ACTIVE counters: symbol_error 0, link_error_recovery 0, link_downed 0, port_rcv_errors 0""",
}


def all_logs():
    """Yields the name and the text of each log."""
    paths = ["P2P/CUMEM/read", "SHM/direct/direct", "P2P/IPC", "NET/IB/0/GDRDMA"]
    versions = ["2.18.3", "2.21.5", "2.26.2", "2.27.3"]
    for i, (network, extra) in enumerate(itertools.product(NETWORKS, EXTRAS)):
        yield (f"nccl-{network}-{extra}", "\n".join(nccl(versions[i % 4], NETWORKS[network], paths[i // 4], EXTRAS[extra])))
    for name, lines in TORCH_LINES.items():
        body = losses(last=5)
        yield f"torch-{name}", "\n".join([*body[:1], *lines, *body[1:]] if name != "end" else [*body, *lines])
        tags = [f"[default{i % 2}]:" for i in range(99)]
        yield f"torch-{name}-tags", "\n".join(tag + line for tag, line in zip(tags, [*lines, *body]))
    for name, table in TABLES.items():
        yield f"table-{name}", "\n".join([table.strip("\n"), *losses()])
        yield f"table-{name}-srun", "\n".join("0: " + line for line in [*table.strip("\n").split("\n"), *losses()])
