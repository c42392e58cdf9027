// These kernels apply one step of an optimizer, in the order of operations of update_rules.cpp.
#pragma once

#include "runtime/backend/nccl/kernels/support.cuh"

// Updates `master` and rounds it to `values`. For f32 and f64, both are the same memory.
template <typename T, typename Rule>
DEVICE void update(T* values, const T* gradient, NumberOf<T>* master, u64 count, f64 gradient_factor, bool are_aligned,
                   const Rule& rule) {
  using Number = NumberOf<T>;
  const auto factor = static_cast<Number>(gradient_factor);
  const bool is_packed = are_aligned && is_aligned(values) && is_aligned(gradient) && is_aligned(master);
  for_each(count, is_packed, [=](auto width, u64 i) {
    auto gradients = load(width, gradient, i);
    UNROLLED for (int k = 0; k < width.value; ++k) gradients.at[k] *= factor;
    auto updated = load(width, static_cast<const Number*>(master), i);
    rule(width, i, gradients, updated);
    store(master, i, updated);
    if constexpr (sizeof(T) != sizeof(Number)) {
      Numbers<T, width.value> rounded;
      UNROLLED for (int k = 0; k < width.value; ++k) rounded.at[k] = updated.at[k];
      store(values, i, rounded);
    }
  });
}

template <typename T>
DEVICE void update_sgd(T* values, const T* gradient, NumberOf<T>* master, u64 count, f64 gradient_factor, f64 rate_,
                       f64 decay_) {
  using Number = NumberOf<T>;
  const auto rate = static_cast<Number>(rate_);
  const auto decay = static_cast<Number>(decay_);
  update(values, gradient, master, count, gradient_factor, true, [=](auto width, u64, auto& gradients, auto& updated) {
    UNROLLED for (int k = 0; k < width.value; ++k) {
      Number& value = updated.at[k];
      value -= rate * (gradients.at[k] + decay * value);
    }
  });
}

template <typename T>
DEVICE void update_momentum(T* values, const T* gradient, NumberOf<T>* master, NumberOf<T>* first, u64 count,
                            f64 gradient_factor, f64 rate_, f64 decay_, f64 momentum_, f64 kept_, f64 fresh_,
                            bool nesterov) {
  using Number = NumberOf<T>;
  const auto rate = static_cast<Number>(rate_);
  const auto decay = static_cast<Number>(decay_);
  const auto momentum = static_cast<Number>(momentum_);
  const auto kept = static_cast<Number>(kept_);
  const auto fresh = static_cast<Number>(fresh_);
  const auto rule = [=](auto width, u64 i, auto& gradients, auto& updated) {
    auto moments = load(width, static_cast<const Number*>(first), i);
    UNROLLED for (int k = 0; k < width.value; ++k) {
      Number& value = updated.at[k];
      Number& moment = moments.at[k];
      const Number decayed = gradients.at[k] + decay * value;
      moment = kept * moment + fresh * decayed;
      const Number ahead = decayed + momentum * moment;
      value -= rate * (nesterov ? ahead : moment);
    }
    store(first, i, moments);
  };
  update(values, gradient, master, count, gradient_factor, is_aligned(first), rule);
}

template <typename T>
DEVICE void update_adam(T* values, const T* gradient, NumberOf<T>* master, NumberOf<T>* first, NumberOf<T>* second,
                        u64 count, f64 gradient_factor, f64 rate_, f64 root_, f64 shrink_, f64 decay_, f64 beta1_,
                        f64 beta2_, f64 fresh1_, f64 fresh2_, f64 epsilon_) {
  using Number = NumberOf<T>;
  const auto rate = static_cast<Number>(rate_);
  const auto root = static_cast<Number>(root_);
  const auto shrink = static_cast<Number>(shrink_);
  const auto decay = static_cast<Number>(decay_);
  const auto beta1 = static_cast<Number>(beta1_);
  const auto beta2 = static_cast<Number>(beta2_);
  const auto fresh1 = static_cast<Number>(fresh1_);
  const auto fresh2 = static_cast<Number>(fresh2_);
  const auto epsilon = static_cast<Number>(epsilon_);
  const auto rule = [=](auto width, u64 i, auto& gradients, auto& updated) {
    auto firsts = load(width, static_cast<const Number*>(first), i);
    auto seconds = load(width, static_cast<const Number*>(second), i);
    UNROLLED for (int k = 0; k < width.value; ++k) {
      Number& value = updated.at[k];
      Number& m = firsts.at[k];
      Number& v = seconds.at[k];
      const Number decayed = gradients.at[k] + decay * value;
      m = beta1 * m + fresh1 * decayed;
      v = beta2 * v + fresh2 * decayed * decayed;
      value = shrink * value - rate * m / (square_root(v) / root + epsilon);
    }
    store(first, i, firsts);
    store(second, i, seconds);
  };
  update(values, gradient, master, count, gradient_factor, is_aligned(first) && is_aligned(second), rule);
}

#define UPDATE(T, NUMBER)                                                                                            \
  KERNEL ddp_update_sgd_##T(T* values, const T* gradient, NUMBER* master, u64 count, f64 gradient_factor, f64 rate,  \
                            f64 decay) {                                                                             \
    update_sgd(values, gradient, master, count, gradient_factor, rate, decay);                                       \
  }                                                                                                                  \
  KERNEL ddp_update_momentum_##T(T* values, const T* gradient, NUMBER* master, NUMBER* first, u64 count,             \
                                 f64 gradient_factor, f64 rate, f64 decay, f64 momentum, f64 kept, f64 fresh,        \
                                 u32 nesterov) {                                                                     \
    update_momentum(values, gradient, master, first, count, gradient_factor, rate, decay, momentum, kept, fresh,     \
                    nesterov != 0);                                                                                  \
  }                                                                                                                  \
  KERNEL ddp_update_adam_##T(T* values, const T* gradient, NUMBER* master, NUMBER* first, NUMBER* second, u64 count, \
                             f64 gradient_factor, f64 rate, f64 root, f64 shrink, f64 decay, f64 beta1, f64 beta2,   \
                             f64 fresh1, f64 fresh2, f64 epsilon) {                                                  \
    update_adam(values, gradient, master, first, second, count, gradient_factor, rate, root, shrink, decay, beta1,   \
                beta2, fresh1, fresh2, epsilon);                                                                     \
  }
UPDATE(f16, f32)
UPDATE(bf16, f32)
UPDATE(f32, f32)
UPDATE(f64, f64)
