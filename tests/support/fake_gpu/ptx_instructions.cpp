// Implements the instructions of PTX that the kernels use. A register has 64 bits, of which an instruction uses as many
// as its type has.
#include <ddp/data_type.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "support/fake_gpu/ptx_module.h"
#include "support/fake_gpu/ptx_thread.h"

namespace fake_gpu {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <typename T>
T value_of(u64 bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
u64 bits_of(T value) {
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
T source(const PtxThread& thread, const PtxInstruction& instruction, int index) {
  return value_of<T>(thread.registers[instruction.registers[index]]);
}

// Sets the destination to function(sources). The sources have the type From.
template <typename From, auto function>
void unary(PtxThread& thread, const PtxInstruction& i) {
  thread.registers[i.registers[0]] = bits_of(function(source<From>(thread, i, 1)));
}
template <typename From, auto function>
void binary(PtxThread& thread, const PtxInstruction& i) {
  thread.registers[i.registers[0]] = bits_of(function(source<From>(thread, i, 1), source<From>(thread, i, 2)));
}
template <typename From, auto function>
void ternary(PtxThread& thread, const PtxInstruction& i) {
  thread.registers[i.registers[0]] =
      bits_of(function(source<From>(thread, i, 1), source<From>(thread, i, 2), source<From>(thread, i, 3)));
}

template <typename From, auto function>
constexpr PtxInstructionKind kUnary{PtxForm::values, 2, unary<From, function>};
template <typename From, auto function>
constexpr PtxInstructionKind kBinary{PtxForm::values, 3, binary<From, function>};

// Integers are unsigned here, so that they wrap around.
template <typename T>
T add(T a, T b) {
  return a + b;
}
template <typename T>
T subtract(T a, T b) {
  return a - b;
}
template <typename T>
T multiply(T a, T b) {
  return a * b;
}
u64 multiply_wide(u32 a, u32 b) {
  return u64{a} * b;
}
template <typename T>
T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return static_cast<T>(~T{0});
  }
  return a / b;
}
template <typename T>
T root(T value) {
  return std::sqrt(value);
}
template <typename T>
T reciprocal(T value) {
  return 1 / value;
}
template <typename T>
T smaller(T a, T b) {
  return std::min(a, b);
}

template <typename T>
T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
u64 both(u64 a, u64 b) {
  return a != 0 && b != 0 ? 1 : 0;
}
u64 either(u64 a, u64 b) {
  return a != 0 || b != 0 ? 1 : 0;
}
// Shifting by all bits or more gives 0. The number of bits is a 32-bit operand for every type.
template <typename T>
T shift_left(u64 value, u64 bits) {
  return static_cast<u32>(bits) >= 8 * sizeof(T) ? T{0} : static_cast<T>(value_of<T>(value) << static_cast<u32>(bits));
}
template <typename T>
T shift_right(u64 value, u64 bits) {
  return static_cast<u32>(bits) >= 8 * sizeof(T) ? T{0} : static_cast<T>(value_of<T>(value) >> static_cast<u32>(bits));
}
u32 extract_bits(u32 value, u32 position, u32 length) {
  const u32 shifted = shift_right<u32>(value, position & 255);
  return (length & 255) >= 32 ? shifted : shifted & ((1U << (length & 255)) - 1);
}

// A comparison of floating-point numbers is false if one is NaN, except for differ().
template <typename T>
u64 equal(T a, T b) {
  return a == b ? 1 : 0;
}
template <typename T>
u64 differ(T a, T b) {
  return a != b ? 1 : 0;
}
template <typename T>
u64 less(T a, T b) {
  return a < b ? 1 : 0;
}
template <typename T>
u64 less_or_equal(T a, T b) {
  return a <= b ? 1 : 0;
}
template <typename T>
u64 greater(T a, T b) {
  return a > b ? 1 : 0;
}
template <typename T>
u64 greater_or_equal(T a, T b) {
  return a >= b ? 1 : 0;
}

void select(PtxThread& thread, const PtxInstruction& i) {
  const bool condition = source<u64>(thread, i, 3) != 0;
  thread.registers[i.registers[0]] = source<u64>(thread, i, condition ? 1 : 2);
}

template <typename From, typename To>
To convert(From value) {
  return static_cast<To>(value);
}
f32 from_half(u16 bits) {
  return static_cast<f32>(std::bit_cast<ddp::Float16>(bits));
}
u16 to_half(f32 value) {
  return ddp::Float16(value).bits;
}

template <typename T>
void load_parameter(PtxThread& thread, const PtxInstruction& i) {
  T value;
  std::memcpy(&value, thread.launch.parameters.data() + i.offset, sizeof value);
  thread.registers[i.registers[0]] = bits_of(value);
}

template <typename T, int width, auto place>
void load(PtxThread& thread, const PtxInstruction& i) {
  const std::byte* from = (thread.*place)(i, width * sizeof(T));
  if (from == nullptr) return;
  for (int k = 0; k < width; ++k) {
    T value;
    std::memcpy(&value, from + static_cast<std::size_t>(k) * sizeof value, sizeof value);
    thread.registers[i.registers[k]] = bits_of(value);
  }
}
// A loop that waits for another device must leave it a processor.
void load_volatile(PtxThread& thread, const PtxInstruction& i) {
  thread_local u64 last = 0;
  const u64 place = thread.registers[i.address];
  thread_local int times = 0;
  times = std::exchange(last, place) == place ? times + 1 : 0;
  constexpr int kMany = 1000;
  if (times > kMany) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  } else if (times > 0) {
    std::this_thread::yield();
  }
  load<u64, 1, &PtxThread::global>(thread, i);
}
template <typename T, int width, auto place>
void store(PtxThread& thread, const PtxInstruction& i) {
  std::byte* to = (thread.*place)(i, width * sizeof(T));
  if (to == nullptr) return;
  for (int k = 0; k < width; ++k) {
    const T value = source<T>(thread, i, k);
    std::memcpy(to + static_cast<std::size_t>(k) * sizeof value, &value, sizeof value);
  }
}
// Blocks run one after the other, and so do threads, but other streams run at the same time.
template <typename T, auto place>
void atomic_add(PtxThread& thread, const PtxInstruction& i) {
  std::byte* at = (thread.*place)(i, sizeof(T));
  if (at == nullptr) return;
  const T old = std::atomic_ref<T>(*reinterpret_cast<T*>(at)).fetch_add(source<T>(thread, i, 1));
  thread.registers[i.registers[0]] = bits_of(old);
}

void branch(PtxThread& thread, const PtxInstruction& i) {
  thread.next = thread.launch.kernel->code.data() + i.offset;
}
void end(PtxThread& thread, const PtxInstruction&) {
  thread.state = PtxThread::State::has_ended;
}
void order_accesses(PtxThread&, const PtxInstruction&) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
void wait_for_block(PtxThread& thread, const PtxInstruction&) {
  thread.state = PtxThread::State::waits_for_block;
}

constexpr auto kGlobal = &PtxThread::global;
constexpr auto kShared = &PtxThread::in_shared;

constexpr PtxInstructionKind kMove = kUnary<u64, convert<u64, u64>>;
constexpr PtxInstructionKind kSelect{PtxForm::values, 4, select};
template <typename T>
constexpr PtxInstructionKind kParameter{PtxForm::parameter, 2, load_parameter<T>};
template <typename T, int width = 1, auto place = kGlobal>
constexpr PtxInstructionKind kLoad{PtxForm::load, width, load<T, width, place>};
template <typename T, int width = 1, auto place = kGlobal>
constexpr PtxInstructionKind kStore{PtxForm::store, width, store<T, width, place>};
template <typename T, auto place>
constexpr PtxInstructionKind kAtomicAdd{PtxForm::atomic, 3, atomic_add<T, place>};

}  // namespace

const std::map<std::string_view, PtxInstructionKind>& ptx_instructions() {
  static const std::map<std::string_view, PtxInstructionKind> kinds = {
      {"add.s32", kBinary<u32, add<u32>>},
      {"add.s64", kBinary<u64, add<u64>>},
      {"add.rn.f32", kBinary<f32, add<f32>>},
      {"add.rn.f64", kBinary<f64, add<f64>>},
      {"sub.s32", kBinary<u32, subtract<u32>>},
      {"sub.s64", kBinary<u64, subtract<u64>>},
      {"sub.rn.f32", kBinary<f32, subtract<f32>>},
      {"sub.rn.f64", kBinary<f64, subtract<f64>>},
      {"mul.lo.s64", kBinary<u64, multiply<u64>>},
      {"mul.wide.u32", kBinary<u32, multiply_wide>},
      {"mul.rn.f32", kBinary<f32, multiply<f32>>},
      {"mul.rn.f64", kBinary<f64, multiply<f64>>},
      {"div.u32", kBinary<u32, divide<u32>>},
      {"div.u64", kBinary<u64, divide<u64>>},
      {"div.rn.f32", kBinary<f32, divide<f32>>},
      {"div.rn.f64", kBinary<f64, divide<f64>>},
      {"rcp.rn.f64", kUnary<f64, reciprocal<f64>>},
      {"sqrt.rn.f32", kUnary<f32, root<f32>>},
      {"sqrt.rn.f64", kUnary<f64, root<f64>>},
      {"min.u32", kBinary<u32, smaller<u32>>},
      {"min.u64", kBinary<u64, smaller<u64>>},

      {"and.pred", kBinary<u64, both>},
      {"or.pred", kBinary<u64, either>},
      {"and.b16", kBinary<u16, bit_and<u16>>},
      {"and.b32", kBinary<u32, bit_and<u32>>},
      {"and.b64", kBinary<u64, bit_and<u64>>},
      {"or.b32", kBinary<u32, bit_or<u32>>},
      {"or.b64", kBinary<u64, bit_or<u64>>},
      {"xor.b16", kBinary<u16, bit_xor<u16>>},
      {"xor.b32", kBinary<u32, bit_xor<u32>>},
      {"xor.b64", kBinary<u64, bit_xor<u64>>},
      {"shl.b32", kBinary<u64, shift_left<u32>>},
      {"shl.b64", kBinary<u64, shift_left<u64>>},
      {"shr.u32", kBinary<u64, shift_right<u32>>},
      {"shr.u64", kBinary<u64, shift_right<u64>>},
      {"bfe.u32", {PtxForm::values, 4, ternary<u32, extract_bits>}},

      {"setp.eq.s32", kBinary<s32, equal<s32>>},
      {"setp.ne.s32", kBinary<s32, differ<s32>>},
      {"setp.ne.s16", kBinary<s16, differ<s16>>},
      {"setp.eq.s64", kBinary<s64, equal<s64>>},
      {"setp.ne.s64", kBinary<s64, differ<s64>>},
      {"setp.lt.s16", kBinary<s16, less<s16>>},
      {"setp.lt.s32", kBinary<s32, less<s32>>},
      {"setp.lt.s64", kBinary<s64, less<s64>>},
      {"setp.gt.u16", kBinary<u16, greater<u16>>},
      {"setp.lt.u32", kBinary<u32, less<u32>>},
      {"setp.le.u32", kBinary<u32, less_or_equal<u32>>},
      {"setp.gt.u32", kBinary<u32, greater<u32>>},
      {"setp.gt.u64", kBinary<u64, greater<u64>>},
      {"setp.ge.u32", kBinary<u32, greater_or_equal<u32>>},
      {"setp.lt.u64", kBinary<u64, less<u64>>},
      {"setp.le.u64", kBinary<u64, less_or_equal<u64>>},
      {"setp.ge.u64", kBinary<u64, greater_or_equal<u64>>},
      {"setp.eq.f32", kBinary<f32, equal<f32>>},
      {"setp.neu.f32", kBinary<f32, differ<f32>>},
      {"setp.eq.f64", kBinary<f64, equal<f64>>},
      {"setp.le.f64", kBinary<f64, less_or_equal<f64>>},
      {"selp.b16", kSelect},
      {"selp.b32", kSelect},
      {"selp.b64", kSelect},
      {"selp.u16", kSelect},
      {"selp.u32", kSelect},
      {"selp.u64", kSelect},
      {"selp.f32", kSelect},
      {"selp.f64", kSelect},

      {"mov.pred", kMove},
      {"mov.b32", kMove},
      {"mov.u16", kMove},
      {"mov.u32", kMove},
      {"mov.u64", kMove},
      {"mov.f32", kMove},
      {"mov.f64", kMove},
      {"cvta.to.global.u64", kMove},
      {"cvt.u64.u32", kUnary<u32, convert<u32, u64>>},
      {"cvt.u32.u64", kUnary<u64, convert<u64, u32>>},
      {"cvt.u16.u64", kUnary<u64, convert<u64, u16>>},
      {"cvt.u16.u32", kUnary<u32, convert<u32, u16>>},
      {"cvt.s32.s16", kUnary<s16, convert<s16, s32>>},
      {"cvt.f64.f32", kUnary<f32, convert<f32, f64>>},
      {"cvt.rn.f32.f64", kUnary<f64, convert<f64, f32>>},
      {"cvt.f32.f16", kUnary<u16, from_half>},
      {"cvt.rn.f16.f32", kUnary<f32, to_half>},

      {"ld.param.u32", kParameter<u32>},
      {"ld.param.u64", kParameter<u64>},
      {"ld.param.f64", kParameter<f64>},
      {"ld.global.u16", kLoad<u16>},
      {"ld.global.u32", kLoad<u32>},
      {"ld.global.u64", kLoad<u64>},
      {"ld.global.f32", kLoad<f32>},
      {"ld.global.f64", kLoad<f64>},
      {"ld.global.v2.f64", kLoad<f64, 2>},
      {"ld.global.v4.u32", kLoad<u32, 4>},
      {"ld.global.v4.f32", kLoad<f32, 4>},
      {"ld.shared.u32", kLoad<u32, 1, kShared>},
      {"ld.shared.u64", kLoad<u64, 1, kShared>},
      {"ld.shared.f32", kLoad<f32, 1, kShared>},
      {"ld.shared.f64", kLoad<f64, 1, kShared>},
      {"st.global.u16", kStore<u16>},
      {"st.global.u32", kStore<u32>},
      {"st.global.u64", kStore<u64>},
      {"st.global.f32", kStore<f32>},
      {"st.global.f64", kStore<f64>},
      {"st.global.v2.f64", kStore<f64, 2>},
      {"st.global.v4.u16", kStore<u16, 4>},
      {"st.global.v4.f32", kStore<f32, 4>},
      {"st.shared.u32", kStore<u32, 1, kShared>},
      {"st.shared.u64", kStore<u64, 1, kShared>},
      {"st.shared.f32", kStore<f32, 1, kShared>},
      {"st.shared.f64", kStore<f64, 1, kShared>},
      {"atom.shared.add.u32", kAtomicAdd<u32, kShared>},
      {"atom.global.add.u64", kAtomicAdd<u64, kGlobal>},

      {"ld.volatile.global.u64", {PtxForm::load, 1, load_volatile}},
      {"st.volatile.global.u64", kStore<u64>},
      {"bra", {PtxForm::branch, 1, branch}},
      {"bra.uni", {PtxForm::branch, 1, branch}},
      {"bar.sync", {PtxForm::none, 1, wait_for_block}},
      {"membar.sys", {PtxForm::none, 0, order_accesses}},
      {"ret", {PtxForm::none, 0, end}},
  };
  return kinds;
}

}  // namespace fake_gpu
