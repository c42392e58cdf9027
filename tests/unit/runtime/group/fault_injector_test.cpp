#include "runtime/group/fault_injector.h"

#include <ddp/error.h>

#include <array>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using wire::Fault;
using wire::FaultKind;

namespace {

Fault fault(FaultKind kind) {
  Fault result;
  result.kind = kind;
  result.number = 1;
  return result;
}

Call all_reduce_of(Buffer buffer, ReduceOp op = ReduceOp::sum) {
  Call call;
  call.operation = Operation::all_reduce;
  call.input = buffer;
  call.output = buffer;
  call.op = op;
  return call;
}

}  // namespace

TEST_CASE("a fault is injected once, at its rank's call with the given number") {
  Fault third = fault(FaultKind::skip);
  third.rank = 1;
  third.operation = "all_reduce";
  third.number = 3;
  FaultInjector injector({third}, 0);
  for (int i = 1; i <= 5; ++i) {
    CAPTURE(i);
    CHECK_FALSE(injector.due(0, Operation::all_reduce));
    CHECK_FALSE(injector.due(1, Operation::broadcast));
    CHECK(injector.due(1, Operation::all_reduce).has_value() == (i == 3));
  }
}

TEST_CASE("a fault without a named collective applies to any collective and to no transfer") {
  Fault second = fault(FaultKind::skip);
  second.number = 2;
  FaultInjector injector({second}, 0);
  CHECK_FALSE(injector.due(0, Operation::barrier));
  CHECK_FALSE(injector.due(0, Operation::send));
  CHECK(injector.due(0, Operation::all_reduce));
}

TEST_CASE("a fault for another attempt is not injected") {
  FaultInjector injector({fault(FaultKind::skip)}, 1);
  CHECK_FALSE(injector.due(0, Operation::barrier));
}

TEST_CASE("each kind of fault changes the call as documented") {
  std::array<float, 8> values{};
  Call call = all_reduce_of(std::span<float>(values), ReduceOp::average);
  CHECK(carry_out(fault(FaultKind::skip), call, 2) == FaultOutcome::skip);
  CHECK(carry_out(fault(FaultKind::swap), call, 2) == FaultOutcome::call_barrier_first);

  const std::uint64_t before = fingerprint_of(call, 2);
  CHECK(carry_out(fault(FaultKind::shape), call, 2) == FaultOutcome::call);
  CHECK(call.input.count == 7);
  CHECK(call.output.count == 7);
  CHECK(fingerprint_of(call, 2) != before);

  CHECK(carry_out(fault(FaultKind::dtype), call, 2) == FaultOutcome::call);
  CHECK(call.output.type == DataType::i32);
  CHECK(is_defined(call.op, call.output.type));
}

TEST_CASE("a shape fault on gather removes one element per rank") {
  std::array<float, 4> own{};
  std::array<float, 12> all{};
  Call call;
  call.operation = Operation::all_gather;
  call.input = std::span<float>(own);
  call.output = std::span<float>(all);
  carry_out(fault(FaultKind::shape), call, 3);
  CHECK(call.input.count == 3);
  CHECK(call.output.count == 9);
}

TEST_CASE("a barrier rejects shape and type faults") {
  Call barrier;
  CHECK_THROWS_AS(carry_out(fault(FaultKind::shape), barrier, 2), Error);
  CHECK_THROWS_AS(carry_out(fault(FaultKind::dtype), barrier, 2), Error);
  CHECK(carry_out(fault(FaultKind::delay), barrier, 2) == FaultOutcome::call);
}
