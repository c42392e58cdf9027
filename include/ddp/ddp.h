// Includes all headers of the runtime.
//
//   int main() {
//     ddp::ProcessGroup world = ddp::init();                       // all workers under ddplaunch, else a world of 1
//     ddp::DistributedDataParallel data_parallel(world, parameters);  // checks, copies rank 0's values to all
//     ddp::DistributedSampler sampler(dataset_size, world);        // each rank gets its share
//     ddp::CheckpointFile checkpoint("model.safetensors", world);      // written atomically
//     for (…) { backward; data_parallel.mark_ready(i); data_parallel.finish(); optimizer step; checkpoint.save(…); }
//   }
//
// A beginner needs five of them: ddp/init.h, ddp/process_group.h, ddp/distributed_data_parallel.h,
// ddp/distributed_sampler.h and ddp/checkpoint.h. Each of the others is for one need that its first line names.
//
// examples/train_charlm.cpp is a complete program. All functions throw ddp::Error (ddp/error.h).
#pragma once

#include <ddp/batch_statistics.h>
#include <ddp/buffer.h>
#include <ddp/call_site.h>
#include <ddp/checkpoint.h>
#include <ddp/checkpoint_manager.h>
#include <ddp/compression_hooks.h>
#include <ddp/data_loader.h>
#include <ddp/data_ranges.h>
#include <ddp/data_type.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/distributed_sampler.h>
#include <ddp/environment.h>
#include <ddp/error.h>
#include <ddp/extension/communication_hook.h>
#include <ddp/gradient_accumulation.h>
#include <ddp/init.h>
#include <ddp/join.h>
#include <ddp/local_sgd.h>
#include <ddp/loss_scaler.h>
#include <ddp/memory.h>
#include <ddp/memory_pool.h>
#include <ddp/optimizer.h>
#include <ddp/parameter_piece.h>
#include <ddp/process_group.h>
#include <ddp/progress.h>
#include <ddp/reduce_op.h>
#include <ddp/rehearsal.h>
#include <ddp/step_statistics.h>
#include <ddp/store.h>
#include <ddp/stream.h>
#include <ddp/version.h>
#include <ddp/work.h>
