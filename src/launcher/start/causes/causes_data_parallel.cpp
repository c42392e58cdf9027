#include <array>

#include "launcher/start/causes/cause.h"

namespace ddp::launcher {
namespace {

// The more specific rows come first.
constexpr auto kDataParallel = std::to_array<Cause>({
    {.id = "replica-without-input",
     .patterns = {"Caught TypeError in replica "},
     .cause = "forward() of a replica of DataParallel raised TypeError; if it lacks an argument that replica 0 got, "
              "the batch had fewer samples than GPUs.",
     .remedy = "Write DataLoader(data, batch_size=12, drop_last=True) with at least one sample per GPU, or use "
               "DistributedDataParallel.",
     .cause_zh = "DataParallel 某个副本的 forward() 抛出了 TypeError；如果副本 0 有这个参数而它没有，说明 batch "
                 "的样本数少于 GPU 数。",
     .remedy_zh = "写成 DataLoader(data, batch_size=12, drop_last=True)，让每张 GPU 至少分到一个样本，或者改用 "
                  "DistributedDataParallel。",
     .page = "how-to/common-mistakes.md#data-parallel"},
    {.id = "replica-without-parameters",
     .patterns = {"Caught StopIteration in replica "},
     .cause = "forward() called next() on something empty; since PyTorch 1.5, parameters() of a DataParallel replica "
              "is empty.",
     .remedy = "Write x.device instead of next(self.parameters()).device, or use DistributedDataParallel.",
     .cause_zh = "forward() 对空的迭代器调用了 next()；从 PyTorch 1.5 起，DataParallel 副本的 parameters() 是空的。",
     .remedy_zh = "用 x.device 代替 next(self.parameters()).device，或者改用 DistributedDataParallel。",
     .page = "how-to/common-mistakes.md#data-parallel"},
    {.id = "module-on-other-device",
     .patterns = {"module must have its parameters and buffers on device"},
     .cause = "DataParallel needs the whole model on its first GPU, and a part of it is elsewhere.",
     .remedy = "Write model.to(\"cuda:0\") before torch.nn.DataParallel(model), where device_ids[0] is 0.",
     .cause_zh = "DataParallel 要求整个模型都在第一张 GPU 上，而有一部分不在。",
     .remedy_zh = "在 torch.nn.DataParallel(model) 之前写 model.to(\"cuda:0\")，其中 device_ids[0] 为 0。",
     .page = "how-to/common-mistakes.md#data-parallel"},
    {.id = "output-on-cpu",
     .patterns = {"Gather function not implemented for CPU tensors"},
     .cause = "forward() of a DataParallel model returned a tensor on the CPU.",
     .remedy = "Return tensors on the device of the input: result.to(x.device).",
     .cause_zh = "DataParallel 模型的 forward() 返回了 CPU 上的张量。",
     .remedy_zh = "返回与输入同一设备的张量：result.to(x.device)。",
     .page = "how-to/common-mistakes.md#data-parallel"},
    {.id = "loss-not-scalar",
     .patterns = {"grad can be implicitly created only for scalar outputs"},
     .cause = "backward() was called on several values, such as one loss per GPU of DataParallel.",
     .remedy = "Write loss.mean().backward().",
     .cause_zh = "对多个值调用了 backward()，例如 DataParallel 每张 GPU 各返回一个 loss。",
     .remedy_zh = "写成 loss.mean().backward()。",
     .page = "how-to/common-mistakes.md#data-parallel"},
    {.id = "attribute-of-wrapper",
     .patterns = {"'DistributedDataParallel' object has no attribute", "'DataParallel' object has no attribute"},
     .cause = "The model is wrapped, and the wrapper does not have the attributes of the inner model.",
     .remedy = "Write model.module.NAME instead of model.NAME.",
     .cause_zh = "模型已经被包装，而包装器没有内层模型的属性。",
     .remedy_zh = "用 model.module.NAME 代替 model.NAME。",
     .page = "how-to/common-mistakes.md#saving"},
    {.id = "ddp-static-graph",
     .patterns = {"our training graph has changed in this iteration"},
     .cause = "The model was wrapped with static_graph=True, and it used other parameters than in the first step.",
     .remedy = "Write DistributedDataParallel(model, find_unused_parameters=True) without static_graph.",
     .cause_zh = "模型用 static_graph=True 包装，但用到的参数与第一步不同。",
     .remedy_zh = "写成 DistributedDataParallel(model, find_unused_parameters=True)，不要传 static_graph。"},
    {.id = "ddp-unused-parameters",
     .patterns = {"Expected to have finished reduction in the prior iteration",
                  "has parameters that were not used in producing the loss"},
     .cause = "Some parameters got no gradient in the last backward, as when the loss does not depend on them.",
     .remedy = "Write DistributedDataParallel(model, find_unused_parameters=True); TORCH_DISTRIBUTED_DEBUG=DETAIL "
               "names the parameters.",
     .cause_zh = "上一次反向传播中有些参数没有得到梯度，例如 loss 没有用到它们。",
     .remedy_zh = "写成 DistributedDataParallel(model, find_unused_parameters=True)；设置 "
                  "TORCH_DISTRIBUTED_DEBUG=DETAIL 会列出这些参数。"},
    {.id = "ddp-ready-twice",
     .patterns = {"Expected to mark a variable ready only once"},
     .cause = "A parameter got its gradient twice in one backward, as with reentrant checkpoints or a use outside of "
              "forward().",
     .remedy = "Write checkpoint(block, x, use_reentrant=False) and leave find_unused_parameters out, or "
               "DistributedDataParallel(model, static_graph=True).",
     .cause_zh =
         "一次反向传播中，同一个参数两次得到梯度，例如用了可重入的 checkpoint，或者在 forward() 之外使用了参数。",
     .remedy_zh = "写成 checkpoint(block, x, use_reentrant=False) 并去掉 find_unused_parameters，或者写 "
                  "DistributedDataParallel(model, static_graph=True)。"},
    {.id = "ddp-no-parameters",
     .patterns = {"DistributedDataParallel is not needed when a module"},
     .cause = "The wrapped model has no parameter that requires a gradient.",
     .remedy = "Call the frozen model without the wrapper, or write model.requires_grad_(True) before it.",
     .cause_zh = "被包装的模型没有需要梯度的参数。",
     .remedy_zh = "冻结的模型不要包装，直接调用；或者在包装之前写 model.requires_grad_(True)。"},
    {.id = "ddp-lazy-parameters",
     .patterns = {"Modules with uninitialized parameters can't be used with"},
     .cause = "The model has lazy layers, whose parameters do not exist before the first forward.",
     .remedy = "Run one batch before you wrap the model: model(x); DistributedDataParallel(model).",
     .cause_zh = "模型里有 lazy 层，第一次前向计算之前还没有参数。",
     .remedy_zh = "先跑一个 batch 再包装：model(x); DistributedDataParallel(model)。"},
    {.id = "ddp-device-ids",
     .patterns = {"device_ids and output_device arguments only work with",
                  "device_ids can only be None or contain a single element"},
     .cause = "device_ids does not fit the model, which is on the CPU or on several devices, or it names several GPUs.",
     .remedy = "Write model.to(local_rank), then DistributedDataParallel(model, device_ids=[local_rank]); on CPUs "
               "leave device_ids out.",
     .cause_zh = "device_ids 与模型不符：模型在 CPU 上或分布在多个设备上，或者 device_ids 写了多张 GPU。",
     .remedy_zh = "先 model.to(local_rank)，再 DistributedDataParallel(model, device_ids=[local_rank])；用 CPU "
                  "时不要传 device_ids。",
     .page = "how-to/common-mistakes.md#script"},
    {.id = "ddp-mixed-devices",
     .patterns = {"input module must be on the same type of devices"},
     .cause = "Parts of the model are on different kinds of devices, such as a GPU and the CPU.",
     .remedy = "Move all of it before you wrap it: model.to(local_rank).",
     .cause_zh = "模型的各部分位于不同类型的设备上，例如 GPU 和 CPU。",
     .remedy_zh = "包装之前先把整个模型放到同一个设备上：model.to(local_rank)。",
     .page = "how-to/common-mistakes.md#script"},
    {.id = "ddp-different-models",
     .patterns = {"DDP expects same model across all ranks, but Rank",
                  "appears not to match sizes of the same param in process",
                  "appears not to match strides of the same param in process"},
     .cause = "The model of this rank has other parameters than the model of another rank.",
     .remedy = "Build it from the same options on all ranks, and compare: print(rank, [tuple(p.shape) for p in "
               "model.parameters()]).",
     .cause_zh = "这个 rank 的模型与其他 rank 的模型参数不同。",
     .remedy_zh =
         "所有 rank 用同样的选项构建模型，并对照：print(rank, [tuple(p.shape) for p in model.parameters()])。"},
    {.id = "changed-in-place",
     .patterns = {"gradient computation has been modified by an inplace operation"},
     .cause = "A tensor that backward() needs was changed in place after forward(), such as a buffer by a second "
              "forward() under DDP.",
     .remedy = "Find the operation with torch.autograd.set_detect_anomaly(True); for buffers, "
               "DistributedDataParallel(model, broadcast_buffers=False).",
     .cause_zh = "backward() 需要的张量在 forward() 之后被原地修改，例如在 DDP 下第二次 forward() 时广播了 buffer。",
     .remedy_zh = "用 torch.autograd.set_detect_anomaly(True) 找出这个操作；如果是 buffer，就写 "
                  "DistributedDataParallel(model, broadcast_buffers=False)。"},
    {.id = "backward-twice",
     .patterns = {"Trying to backward through the graph a second time"},
     .cause = "backward() went twice through one graph, whose values are freed after the first time.",
     .remedy = "Run forward again before each backward(), and detach() what is kept between steps; or write "
               "loss.backward(retain_graph=True).",
     .cause_zh = "对同一张计算图做了两次 backward()，而第一次之后中间结果就已释放。",
     .remedy_zh = "每次 backward() 之前重新做前向计算，跨 step 保留的张量要 detach()；或者写 "
                  "loss.backward(retain_graph=True)。"},
    {.id = "loss-without-gradient",
     .patterns = {"does not require grad and does not have a grad_fn"},
     .cause = "backward() was called on a tensor that depends on no parameter with a gradient.",
     .remedy = "Run forward outside of torch.no_grad(), without detach(), and write model.requires_grad_(True) if "
               "layers are frozen.",
     .cause_zh = "backward() 所用的张量不依赖任何需要梯度的参数。",
     .remedy_zh =
         "前向计算不要放在 torch.no_grad() 里，也不要 detach()；如果层被冻结，就写 model.requires_grad_(True)。"},
    {.id = "recomputation-differs",
     .patterns = {"tensors was saved during the original forward and recomputation",
                  "Recomputed values for the following tensors have different metadata"},
     .cause = "A block with activation checkpointing did other operations when it was computed again.",
     .remedy = "Let the block depend on its arguments only; torch.utils.checkpoint.set_checkpoint_debug_enabled(True) "
               "shows the operations.",
     .cause_zh = "使用激活检查点（activation checkpointing）的模块，重算时执行的操作与第一次不同。",
     .remedy_zh =
         "模块的计算只能依赖它的参数；torch.utils.checkpoint.set_checkpoint_debug_enabled(True) 会列出这些操作。"},
    {.id = "sync-batchnorm-on-cpu",
     .patterns = {"SyncBatchNorm expected input tensor to be on GPU",
                  "SyncBatchNorm layers only work with GPU modules"},
     .cause = "SyncBatchNorm works on GPUs only, and the model or its input is on the CPU.",
     .remedy = "Convert it on GPUs only: if device.type == \"cuda\": model = "
               "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).",
     .cause_zh = "SyncBatchNorm 只能在 GPU 上使用，而模型或它的输入在 CPU 上。",
     .remedy_zh =
         "只在 GPU 上转换：if device.type == \"cuda\": model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)。"},
    {.id = "no-backend-for-device",
     .patterns = {"No backend type associated with device type", "Tensors must be CUDA and dense",
                  "Only CUDA dense tensor is supported for NCCL collective operations"},
     .cause = "The process group has no backend for the device of this tensor, or the tensor is sparse.",
     .remedy =
         "Move it before the collective: x = x.to(device); or write dist.init_process_group(\"cpu:gloo,cuda:nccl\").",
     .cause_zh = "进程组没有支持该张量所在设备的后端，或者这个张量是稀疏的。",
     .remedy_zh = "在集合通信之前移动张量：x = x.to(device)；或者写 dist.init_process_group(\"cpu:gloo,cuda:nccl\")。"},
    {.id = "collective-sizes",
     .patterns = {"ProcessGroupGloo::…: invalid tensor size at index",
                  "Tensor list input to scatter/gather must match number of collective participants"},
     .cause = "The list of tensors that a collective got does not fit it: each rank needs one, and all need one size.",
     .remedy = "Write out = [torch.empty_like(x) for _ in range(dist.get_world_size())], then dist.all_gather(out, x).",
     .cause_zh = "传给集合通信的张量列表不符合要求：每个 rank 一个张量，并且大小都相同。",
     .remedy_zh =
         "写成 out = [torch.empty_like(x) for _ in range(dist.get_world_size())]，再 dist.all_gather(out, x)。",
     .page = "reference/collectives.md"},
    {.id = "group-ranks",
     .patterns = {"new group's rank should be within the", "is out of range. Valid ranks are 0 to",
                  "the new group's world size should be less or equal to"},
     .cause = "new_group() got a rank that the job does not have, or more ranks than it has.",
     .remedy = "Write dist.new_group(list(range(dist.get_world_size()))), or start more ranks.",
     .cause_zh = "传给 new_group() 的 rank 超出了任务的范围，或者 rank 数多于任务的 rank 数。",
     .remedy_zh = "写成 dist.new_group(list(range(dist.get_world_size())))，或者启动更多 rank。"},
    {.id = "uneven-inputs",
     .patterns = {"Detected at least one rank that exhausted inputs", "RuntimeError: Rank … exhausted all inputs"},
     .cause = "The ranks have different numbers of batches, and join() was asked to raise an error then.",
     .remedy = "Write with model.join(): without throw_on_early_termination, or give all ranks the same number with "
               "DistributedSampler.",
     .cause_zh = "各 rank 的 batch 数不同，而 join() 的设置要求此时报错。",
     .remedy_zh = "写成 with model.join():，不传 throw_on_early_termination；或者用 DistributedSampler 让各 rank 的 "
                  "batch 数相同。",
     .page = "how-to/uneven-data.md"},
    {.id = "fsdp-dtypes",
     .patterns = {"Must flatten tensors with uniform dtype but got"},
     .cause = "FSDP puts parameters into one tensor, and these have different types.",
     .remedy = "Give them one type before you wrap the model: model.to(torch.bfloat16).",
     .cause_zh = "FSDP 要把参数合并成一个张量，而这些参数的类型不同。",
     .remedy_zh = "包装之前统一参数类型：model.to(torch.bfloat16)。"},
    {.id = "fsdp-without-gpu",
     .patterns = {"FSDP needs a non-CPU accelerator device"},
     .cause = "FSDP found no GPU.",
     .remedy = "List the GPUs with nvidia-smi -L; on CPUs, write FullyShardedDataParallel(model, "
               "device_id=torch.device(\"cpu\")).",
     .cause_zh = "FSDP 没有找到 GPU。",
     .remedy_zh =
         "用 nvidia-smi -L 查看 GPU；用 CPU 就写 FullyShardedDataParallel(model, device_id=torch.device(\"cpu\"))。"},
    {.id = "deepspeed-no-sync",
     .patterns = {"no_sync context manager is incompatible with gradient"},
     .cause = "ZeRO stages 2 and 3 divide the gradients in each backward, so no_sync() cannot delay that.",
     .remedy = "Remove no_sync(), or write \"zero_optimization\": {\"stage\": 1} into the configuration of DeepSpeed.",
     .cause_zh = "ZeRO stage 2 和 3 在每次反向传播中都会切分梯度，no_sync() 无法推迟这一步。",
     .remedy_zh = "去掉 no_sync()，或者在 DeepSpeed 配置里写 \"zero_optimization\": {\"stage\": 1}。"},
});

}  // namespace

std::span<const Cause> causes_of_data_parallel() {
  return kDataParallel;
}

}  // namespace ddp::launcher
