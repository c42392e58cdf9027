#include <array>

#include "launcher/start/causes/cause.h"

namespace ddp::launcher {
namespace {

// The more specific rows come first.
constexpr auto kPrograms = std::to_array<Cause>({
    {.id = "unknown-backend",
     .patterns = {"AssertionError: Unknown backend type", "Unknown c10d backend type",
                  "ValueError: Invalid backend: '"},
     .cause = "PyTorch has no backend of this name.",
     .remedy = "Write dist.init_process_group(\"nccl\") for GPUs, or dist.init_process_group(\"gloo\") for CPUs.",
     .cause_zh = "PyTorch 没有这个名字的通信后端。",
     .remedy_zh = "用 GPU 就写 dist.init_process_group(\"nccl\")，用 CPU 就写 dist.init_process_group(\"gloo\")。"},
    {.id = "mpi-not-built",
     .patterns = {"Distributed package doesn't have MPI built in"},
     .cause = "This build of PyTorch has no backend for MPI.",
     .remedy = "Write dist.init_process_group(\"nccl\") for GPUs, or dist.init_process_group(\"gloo\") for CPUs; "
               "mpirun may still start the job.",
     .cause_zh = "当前安装的 PyTorch 没有编译 MPI 后端。",
     .remedy_zh = "用 GPU 就写 dist.init_process_group(\"nccl\")，用 CPU 就写 "
                  "dist.init_process_group(\"gloo\")；仍然可以用 mpirun 启动。",
     .page = "how-to/migrate.md#from-mpirun"},
    {.id = "no-process-group",
     .patterns = {"Default process group has not been initialized"},
     .cause = "The program uses torch.distributed while it has no process group.",
     .remedy = "Call dist.init_process_group(\"nccl\") before the first collective, DistributedSampler or "
               "DistributedDataParallel.",
     .cause_zh = "程序在没有进程组的情况下使用了 torch.distributed。",
     .remedy_zh = "在第一次使用集合通信、DistributedSampler 或 DistributedDataParallel 之前，调用 "
                  "dist.init_process_group(\"nccl\")。",
     .page = "how-to/common-mistakes.md#script"},
    {.id = "process-group-twice",
     .patterns = {"trying to initialize the default process group twice"},
     .cause = "init_process_group() was called while the process group existed.",
     .remedy = "Write if not dist.is_initialized(): dist.init_process_group(\"nccl\"); a framework may have made the "
               "group before.",
     .cause_zh = "进程组已经存在时，程序又调用了 init_process_group()。",
     .remedy_zh =
         "写成 if not dist.is_initialized(): dist.init_process_group(\"nccl\")；进程组可能已经由所用的框架创建。"},
    {.id = "local-rank-underscore",
     .patterns = {"unrecognized arguments:… --local_rank"},
     .cause =
         "The script was started with --local_rank, which some launchers pass, and it does not declare this option.",
     .remedy = "Declare both spellings: add_argument(\"--local-rank\", \"--local_rank\", type=int); or read "
               "os.environ[\"LOCAL_RANK\"] and start with torchrun or ddplaunch, which pass no option.",
     .cause_zh = "脚本启动时带有 --local_rank（某些启动器会传入），而脚本没有声明这个选项。",
     .remedy_zh = "两种写法都声明：add_argument(\"--local-rank\", \"--local_rank\", type=int)；或者读取 "
                  "os.environ[\"LOCAL_RANK\"]，并用不传这个选项的 torchrun 或 ddplaunch 启动。",
     .page = "how-to/migrate.md#from-torchrun"},
    {.id = "local-rank-dash",
     .patterns = {"unrecognized arguments:… --local-rank"},
     .cause =
         "The script was started with --local-rank, which some launchers pass, and it does not declare this option.",
     .remedy = "Declare both spellings: add_argument(\"--local-rank\", \"--local_rank\", type=int); or read "
               "os.environ[\"LOCAL_RANK\"] and start with torchrun or ddplaunch, which pass no option.",
     .cause_zh = "脚本启动时带有 --local-rank（某些启动器会传入），而脚本没有声明这个选项。",
     .remedy_zh = "两种写法都声明：add_argument(\"--local-rank\", \"--local_rank\", type=int)；或者读取 "
                  "os.environ[\"LOCAL_RANK\"]，并用不传这个选项的 torchrun 或 ddplaunch 启动。",
     .page = "how-to/migrate.md#from-torchrun"},
    {.id = "arguments-refused",
     .patterns = {": error: unrecognized arguments: ", ": error: the following arguments are required: ",
                  ": error: argument …: invalid ", ": error: argument …: expected "},
     .cause = "The program refused its arguments, and its line says which one.",
     .remedy = "See what it accepts: python train.py --help. Options of a launcher stand before the script.",
     .cause_zh = "程序拒绝了它的参数，该行指出了是哪一个。",
     .remedy_zh = "查看它接受哪些参数：python train.py --help。启动器的选项要写在脚本之前。"},
    {.id = "missing-module",
     .patterns = {"ModuleNotFoundError: No module named '"},
     .cause = "The Python that runs the program does not have this module.",
     .remedy = "Activate the environment that has it, or install it there: python3 -m pip install NAME.",
     .cause_zh = "运行程序的 Python 里没有这个模块。",
     .remedy_zh = "激活装有该模块的环境，或者在当前环境中安装：python3 -m pip install NAME。",
     .page = "how-to/troubleshooting.md#the-job-does-not-start"},
    {.id = "numpy-not-usable",
     .patterns = {"RuntimeError: Numpy is not available", "ValueError: numpy.dtype size changed",
                  "ValueError: numpy.ndarray size changed"},
     .cause = "NumPy is missing, or a module was compiled for another version of NumPy.",
     .remedy = "Install a version that fits: python3 -m pip install \"numpy<2\", or upgrade the module that was "
               "compiled for the old one.",
     .cause_zh = "没有安装 NumPy，或者某个模块是按另一个版本的 NumPy 编译的。",
     .remedy_zh = "安装匹配的版本：python3 -m pip install \"numpy<2\"，或者升级按旧版本编译的模块。"},
    {.id = "torchvision-mismatch",
     .patterns = {"operator torchvision::nms does not exist"},
     .cause = "The compiled part of torchvision was not loaded, as when it does not fit this PyTorch.",
     .remedy = "Install versions that fit: python3 -m pip install --upgrade torch torchvision.",
     .cause_zh = "torchvision 的编译部分没有加载，例如它与当前的 PyTorch 不匹配。",
     .remedy_zh = "安装互相匹配的版本：python3 -m pip install --upgrade torch torchvision。"},
    {.id = "extension-mismatch",
     .patterns = {"Error: …undefined symbol: _ZN3c10", "Error: …undefined symbol: _ZNK3c10",
                  "Error: …undefined symbol: _ZN2at", "Error: …undefined symbol: _ZNK2at",
                  "Error: …undefined symbol: _ZN5torch"},
     .cause = "An extension needs a function that the loaded PyTorch does not have, as when it was compiled for "
              "another one.",
     .remedy = "Compile it again for the installed one: python3 -m pip install --force-reinstall --no-deps "
               "--no-cache-dir --no-build-isolation --no-binary NAME NAME.",
     .cause_zh = "某个扩展需要的函数在已加载的 PyTorch 中不存在，例如它是按另一个版本的 PyTorch 编译的。",
     .remedy_zh = "针对当前版本重新编译：python3 -m pip install --force-reinstall --no-deps --no-cache-dir "
                  "--no-build-isolation --no-binary NAME NAME。"},
    {.id = "torch-without-cuda",
     .patterns = {"Torch not compiled with CUDA enabled"},
     .cause = "The program uses a GPU, and this build of PyTorch is for CPUs.",
     .remedy = "Install a build of PyTorch for CUDA: see pytorch.org. Then python3 -c \"import torch; "
               "print(torch.version.cuda)\" prints a version.",
     .cause_zh = "程序要使用 GPU，而当前安装的是 CPU 版 PyTorch。",
     .remedy_zh = "安装 CUDA 版 PyTorch（见 pytorch.org）。之后 python3 -c \"import torch; print(torch.version.cuda)\" "
                  "会输出版本号。"},
    {.id = "no-visible-gpu",
     .patterns = {"RuntimeError: No CUDA GPUs are available"},
     .cause = "This process sees no GPU.",
     .remedy = "Compare nvidia-smi -L with echo $CUDA_VISIBLE_DEVICES on that node; give a container its GPUs: docker "
               "run --gpus all.",
     .cause_zh = "这个进程看不到任何 GPU。",
     .remedy_zh =
         "在该节点上对照 nvidia-smi -L 与 echo $CUDA_VISIBLE_DEVICES 的输出；容器要加上 docker run --gpus all。",
     .page = "how-to/containers.md#docker-and-podman"},
    {.id = "cuda-unknown-error",
     .patterns = {"RuntimeError: CUDA unknown error - this may be due to"},
     .cause = "CUDA could not be initialized, and the driver gave no reason.",
     .remedy = "nvidia-smi has to work on that node; sudo modprobe nvidia_uvm loads what may be missing. Set "
               "CUDA_VISIBLE_DEVICES before the start, never in the program.",
     .cause_zh = "CUDA 初始化失败，而驱动没有给出原因。",
     .remedy_zh = "先确认该节点上的 nvidia-smi 正常；sudo modprobe nvidia_uvm "
                  "可加载缺失的内核模块；CUDA_VISIBLE_DEVICES 要在启动之前设置，不要在程序里设置。",
     .page = "how-to/common-mistakes.md#visible-devices"},
    {.id = "invalid-device-ordinal",
     .patterns = {"CUDA error: invalid device ordinal"},
     .cause = "The program chose a GPU whose number is too large for the GPUs that this process sees.",
     .remedy = "Write torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])), and start at most as many ranks as "
               "nvidia-smi -L lists GPUs.",
     .cause_zh = "程序选用的 GPU 编号超出了这个进程可见的 GPU 范围。",
     .remedy_zh = "写成 torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))，并且每个节点的 rank 数不超过 "
                  "nvidia-smi -L 列出的 GPU 数。",
     .page = "how-to/common-mistakes.md#visible-devices"},
    {.id = "cuda-out-of-memory",
     .patterns = {"CUDA out of memory. Tried to allocate", "CUDA error: out of memory",
                  "HIP out of memory. Tried to allocate"},
     .cause = "The program asked for more GPU memory than was left for it.",
     .remedy = "Lower batch_size, validate under torch.no_grad(), and add up loss.item() instead of loss. If only GPU "
               "0 is full: torch.cuda.set_device(local_rank), and torch.load(path, map_location=\"cpu\").",
     .cause_zh = "程序申请的显存多于它还能得到的显存（爆显存）。",
     .remedy_zh = "减小 batch_size；验证时加 torch.no_grad()；累加 loss.item() 而不是 loss。如果只有 GPU 0 "
                  "爆显存：先调用 torch.cuda.set_device(local_rank)，再用 torch.load(path, map_location=\"cpu\")。",
     .page = "how-to/common-mistakes.md#out-of-memory"},
    {.id = "cublas-out-of-memory",
     .patterns = {"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED"},
     .cause = "A library of CUDA, such as cuBLAS, could not allocate memory on the GPU.",
     .remedy = "Lower batch_size. If PyTorch's cache holds the memory, limit it: "
               "torch.cuda.set_per_process_memory_fraction(0.9).",
     .cause_zh = "CUDA 的库（如 cuBLAS）在 GPU 上申请不到显存。",
     .remedy_zh =
         "减小 batch_size；如果显存被 PyTorch 的缓存占用，就限制它：torch.cuda.set_per_process_memory_fraction(0.9)。",
     .page = "how-to/common-mistakes.md#out-of-memory"},
    {.id = "index-out-of-range",
     .patterns = {"IndexError: Target … is out of bounds", "IndexError: index out of range in self"},
     .cause = "A class label or an index lies outside the classes of the model, or the rows of a layer or tensor.",
     .remedy = "Compare print(labels.min(), labels.max()) with the size of the layer; classes count from 0.",
     .cause_zh = "类别标签或索引超出了模型的类别数，或者某层、某个张量的行数。",
     .remedy_zh = "用 print(labels.min(), labels.max()) 与该层的大小对照；类别从 0 开始编号。"},
    {.id = "different-devices",
     .patterns = {"Expected all tensors to be on the same device", "Tensor on device … is not on the expected device",
                  "Expected object of device type cuda but got device type cpu",
                  "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor)",
                  "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor)"},
     .cause = "An operation got tensors that are on different devices.",
     .remedy =
         "Move the model and each batch to one device: model.to(device), and x = x.to(device, non_blocking=True).",
     .cause_zh = "一次运算用到的张量不在同一个设备上。",
     .remedy_zh =
         "把模型和每个 batch 都放到同一个设备上：model.to(device)，以及 x = x.to(device, non_blocking=True)。"},
    {.id = "different-dtypes",
     .patterns = {"mat1 and mat2 must have the same dtype", "Input type (… and bias type (… should be the same",
                  "RuntimeError: expected scalar type … but found"},
     .cause = "An operation got tensors of different types, such as float32 and float64.",
     .remedy = "Write x = x.to(next(model.parameters()).dtype), or run forward under torch.autocast(\"cuda\", "
               "dtype=torch.bfloat16).",
     .cause_zh = "一次运算用到的张量类型不同，例如 float32 与 float64。",
     .remedy_zh = "写成 x = x.to(next(model.parameters()).dtype)，或者在 torch.autocast(\"cuda\", "
                  "dtype=torch.bfloat16) 下做前向计算。"},
    {.id = "meta-parameters",
     .patterns = {"Cannot copy out of meta tensor; no data!"},
     .cause = "The tensor was made on the device meta, so it has no values that could be copied.",
     .remedy = "Call model.to_empty(device=device) instead of model.to(device), and then load the weights.",
     .cause_zh = "张量建在 meta 设备上，没有可以拷贝的数据。",
     .remedy_zh = "用 model.to_empty(device=device) 代替 model.to(device)，然后再加载权重。"},
    {.id = "numpy-of-gpu-tensor",
     .patterns = {"device type tensor to numpy. Use Tensor.cpu()"},
     .cause = "NumPy cannot read a tensor that is not on the CPU.",
     .remedy = "Write x.detach().cpu().numpy().",
     .cause_zh = "NumPy 不能读取不在 CPU 上的张量。",
     .remedy_zh = "写成 x.detach().cpu().numpy()。"},
    {.id = "batch-of-one",
     .patterns = {"Expected more than 1 value per channel when training"},
     .cause = "A layer that normalizes got only one value per channel, as from a batch of one sample.",
     .remedy = "Give the DataLoader drop_last=True, and each rank at least two samples per batch.",
     .cause_zh = "归一化层（如 BatchNorm）的每个通道只有一个值，例如 batch 里只有一个样本。",
     .remedy_zh = "给 DataLoader 传 drop_last=True，并让每个 rank 的 batch 至少有两个样本。",
     .page = "how-to/common-mistakes.md#small-batch"},
    {.id = "half-gradients",
     .patterns = {"Attempting to unscale FP16 gradients"},
     .cause = "GradScaler needs parameters in float32, and those of the model are in float16.",
     .remedy = "Leave the model in float32 (model.float()), and run forward under torch.autocast(\"cuda\", "
               "dtype=torch.float16).",
     .cause_zh = "GradScaler 要求参数是 float32，而模型的参数是 float16。",
     .remedy_zh =
         "模型保持 float32（model.float()），并在 torch.autocast(\"cuda\", dtype=torch.float16) 下做前向计算。"},
    {.id = "accelerate-state",
     .patterns = {"AcceleratorState has already been initialized and cannot be changed"},
     .cause = "The program makes a second Accelerator with other options than the first one.",
     .remedy = "Make one accelerator = Accelerator(mixed_precision=\"bf16\") at the beginning, and pass it on.",
     .cause_zh = "程序又用不同的选项创建了一个 Accelerator。",
     .remedy_zh = "只在开头创建一次 accelerator = Accelerator(mixed_precision=\"bf16\")，之后一直传递它。"},
    {.id = "accelerate-device-map",
     .patterns = {"a model that has been loaded with `device_map='auto'` in any"},
     .cause = "The model was loaded with a device_map of several parts, and each rank of a distributed job needs a "
              "whole copy.",
     .remedy =
         "Leave device_map out of from_pretrained(), or write device_map={\"\": int(os.environ[\"LOCAL_RANK\"])}.",
     .cause_zh = "模型加载时被 device_map 拆成了几部分，而分布式任务的每个 rank 都需要完整的一份。",
     .remedy_zh = "from_pretrained() 不要传 device_map，或者写成 device_map={\"\": int(os.environ[\"LOCAL_RANK\"])}。"},
    {.id = "accelerate-processes",
     .patterns = {"You need to use at least 2 processes to use `--multi_gpu`",
                  "Less than two GPU ids were configured and tried to run ",
                  "You can only use one of `--cpu`, `--multi_gpu`, "},
     .cause = "The options of accelerate contradict each other.",
     .remedy = "Write the configuration again with accelerate config; accelerate env shows it.",
     .cause_zh = "accelerate 的选项互相矛盾。",
     .remedy_zh = "用 accelerate config 重新生成配置；accelerate env 可以查看配置。",
     .page = "how-to/migrate.md#from-accelerate"},
    {.id = "accelerate-precision",
     .patterns = {"Error: fp16 mixed precision requires a ", "Error: bf16 mixed precision requires PyTorch >= 1.10"},
     .cause = "accelerate found no device that supports the chosen precision.",
     .remedy = "Check torch.cuda.is_available() and nvidia-smi; without GPUs: accelerate launch --mixed_precision=no.",
     .cause_zh = "accelerate 找不到支持所选精度的设备。",
     .remedy_zh =
         "检查 torch.cuda.is_available() 和 nvidia-smi；没有 GPU 时：accelerate launch --mixed_precision=no。"},
    {.id = "lightning-no-gpu",
     .patterns = {"MisconfigurationException: No supported gpu backend found",
                  "MisconfigurationException: You requested gpu: ", "`CUDAAccelerator` can not run on your system"},
     .cause = "Lightning finds fewer GPUs than the Trainer asks for.",
     .remedy = "List the GPUs with nvidia-smi -L; Trainer(accelerator=\"auto\", devices=\"auto\") takes what there is.",
     .cause_zh = "Lightning 找到的 GPU 比 Trainer 要求的少。",
     .remedy_zh = "用 nvidia-smi -L 查看 GPU；Trainer(accelerator=\"auto\", devices=\"auto\") 会自动使用现有的设备。"},
    {.id = "no-standard-input",
     .patterns = {"EOFError: EOF when reading a line", "bdb.BdbQuit"},
     .cause = "The program reads its standard input, as breakpoint() and input() do, and has none.",
     .remedy = "Connect it to one worker: ddplaunch --nproc-per-node=1 --stdin=0 train.py.",
     .cause_zh = "程序要读取标准输入（例如 breakpoint() 或 input()），但它没有标准输入。",
     .remedy_zh = "只用一个 worker 并接上标准输入：ddplaunch --nproc-per-node=1 --stdin=0 train.py。",
     .page = "how-to/debuggers.md"},
    {.id = "lightning-slurm-tasks",
     .patterns = {"but the number of tasks per node configured in SLURM", "but the number of nodes configured in SLURM",
                  "in your SLURM bash script, but this variable is not supported"},
     .cause = "The options of Slurm and those of Lightning's Trainer do not fit together.",
     .remedy = "For #SBATCH --nodes=2 --ntasks-per-node=8, write Trainer(num_nodes=2, devices=8), without --ntasks.",
     .cause_zh = "Slurm 的选项与 Lightning Trainer 的参数不一致。",
     .remedy_zh =
         "如果写了 #SBATCH --nodes=2 --ntasks-per-node=8，就要写 Trainer(num_nodes=2, devices=8)，不要写 --ntasks。"},
    {.id = "trainer-bf16",
     .patterns = {"ValueError: Your setup doesn't support bf16/gpu"},
     .cause = "TrainingArguments ask for bf16, which no GPU that PyTorch finds supports.",
     .remedy =
         "Write TrainingArguments(fp16=True) for an older GPU, or TrainingArguments(use_cpu=True, bf16=True) for CPUs.",
     .cause_zh = "TrainingArguments 要求使用 bf16，但 PyTorch 找不到支持 bf16 的 GPU。",
     .remedy_zh =
         "较旧的 GPU 写 TrainingArguments(fp16=True)；用 CPU 就写 TrainingArguments(use_cpu=True, bf16=True)。"},
});

}  // namespace

std::span<const Cause> causes_of_programs() {
  return kPrograms;
}

}  // namespace ddp::launcher
