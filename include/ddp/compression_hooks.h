// Communication hooks that send less than the gradients: half precision, PowerSGD, top-k and one bit.
#pragma once

#include <ddp/data_type.h>
#include <ddp/extension/communication_hook.h>

#include <cstdint>
#include <memory>

namespace ddp {

// Gradients travel as f16 or bf16 and come back in their own type: half of the bytes of f32. The sum is taken in single
// precision and rounded once. f16 has no more than 65504: for gradients that are scaled up, take bf16. Throws
// invalid_argument for other types.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_half_hook(DataType type);

struct PowerSgdOptions {
  int rank = 1;                   // of the approximation: more is closer, and more bytes
  std::int64_t start_step = 100;  // until then the plain mean: early gradients are not of low rank
  double least_compression = 2;   // what would not shrink by this factor travels whole
  std::uint64_t seed = 0;         // of the first factors; the same on all ranks
};

// Each gradient, as a matrix M of shape[0] rows, travels as P = M Q and Q = transpose(M) P, with P made orthonormal
// between; the mean is P transpose(Q). The factor Q is kept for the next step, and what the approximation leaves out is
// added to the next step's gradient. Vectors travel whole. Vogels, Karimireddy, Jaggi: PowerSGD, arXiv:1905.13727,
// algorithms 1 and 2.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_power_sgd_hook(PowerSgdOptions options = {});

// Of each bucket the share `density` of elements with the largest magnitudes travels, as (index, value) pairs that all
// ranks gather: 8 * density * n bytes a rank for n elements. What does not travel is added to the next step's gradient.
// Stich, Cordonnier, Jaggi: Sparsified SGD with memory, arXiv:1809.07599. Throws invalid_argument unless
// 0 < density <= 1.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_top_k_hook(double density = 0.01);

// Of each element the sign travels, of each gradient the mean magnitude: 1/32 of the bytes of f32. What that leaves out
// is added to the next step's gradient. Seide et al., INTERSPEECH 2014; Karimireddy et al.: Error feedback fixes
// SignSGD, arXiv:1901.09847, algorithm 2.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_one_bit_hook();

// These compute in single precision, f64 gradients too, and on host memory. What they keep from step to step (what was
// left out, factors) is no checkpoint's: a training that goes on after one begins without it, and differs by that. One
// object for one DistributedDataParallel.

}  // namespace ddp
