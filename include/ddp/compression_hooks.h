// Declares communication hooks that send less than the gradients: half precision, PowerSGD, top-k and one bit.
#pragma once

#include <ddp/data_type.h>
#include <ddp/extension/communication_hook.h>

#include <cstdint>
#include <memory>

namespace ddp {

// Sends gradients as f16 or bf16 and returns them in their own type, which needs half of the bytes of f32. They are
// divided by the number of ranks, rounded and summed. In host memory the sum is computed in single precision and
// rounded once; on a GPU, NCCL adds as it does for these types. f16 values cannot exceed 65504, so use bf16 for
// gradients that are scaled up. Throws invalid_argument for other types.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_half_hook(DataType type);

struct PowerSgdOptions {
  int rank = 1;                   // rank of the approximation; a higher one is more precise and sends more bytes
  std::int64_t start_step = 100;  // earlier steps use the plain mean, because early gradients are not of low rank
  double least_compression = 2;   // gradients that would not shrink by this factor are sent uncompressed
  std::uint64_t seed = 0;         // seed of the first factors; must be the same on all ranks
};

// Sends each gradient, as a matrix M of shape[0] rows, as P = M Q and Q = transpose(M) P. P is made orthonormal in
// between, and the mean is P transpose(Q). The hook keeps the factor Q for the next step, and adds the error of the
// approximation to the next step's gradient. Vectors are sent uncompressed. The method is that of Vogels, Karimireddy,
// Jaggi: PowerSGD, arXiv:1905.13727, algorithms 1 and 2.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_power_sgd_hook(PowerSgdOptions options = {});

// Sends the share `density` of a bucket's elements: those with the largest magnitudes. All ranks gather their
// indices and values, which are 8 * density * n bytes per rank for n elements. The hook adds the elements that were not
// sent to the next step's gradient. The method is that of Stich, Cordonnier, Jaggi: Sparsified SGD with memory,
// arXiv:1809.07599. Throws invalid_argument unless 0 < density <= 1.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_top_k_hook(double density = 0.01);

// Sends the sign of each element and the mean magnitude of each gradient, which needs 1/32 of the bytes of f32. The
// hook adds the resulting error to the next step's gradient. The method is that of Seide et al., INTERSPEECH 2014, and
// Karimireddy et al.: Error feedback fixes SignSGD, arXiv:1901.09847, algorithm 2.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_one_bit_hook();

// These hooks compute in single precision, for f64 gradients too. They work in host memory and in GPU memory, where
// everything is in the order of the stream. The one-bit hook works in host memory only. No checkpoint holds their state
// (errors that are fed back, factors). A run that resumes from a checkpoint starts without that state, and its results
// differ accordingly. One object serves one DistributedDataParallel.

}  // namespace ddp
