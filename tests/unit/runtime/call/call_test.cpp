#include "runtime/call/call.h"

#include <set>

#include "support/calls.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

Call named(Call call, std::uint64_t sequence, std::string name = "") {
  call.sequence = sequence;
  call.name = std::move(name);
  return call;
}

}  // namespace

TEST_CASE("a call is described with its operation, type and size") {
  std::vector<float> floats(6);
  const Buffer buffer(floats);
  CHECK(describe(named(all_reduce(buffer, ReduceOp::max), 12, "bucket 3")) ==
        "all_reduce max #12 of f32[6] ('bucket 3')");
  CHECK(describe(named(broadcast(buffer, 2), 1)) == "broadcast from rank 2 #1 of f32[6]");
  CHECK(describe(named(call_of(Operation::send, buffer, {}, 3), 4)) == "send to rank 3 #4 of f32[6]");
  CHECK(describe(named(call_of(Operation::recv, {}, buffer, 3), 4)) == "recv from rank 3 #4 of f32[6]");
  CHECK(describe(named(call_of(Operation::gather, buffer, {}, 0), 5)) == "gather to rank 0 #5 of f32[6]");
  CHECK(describe(named(barrier(), 9)) == "barrier #9");
}

TEST_CASE("calls that must not match have different fingerprints") {
  std::vector<float> floats(6);
  std::vector<std::int32_t> integers(6);
  const Buffer buffer(floats);
  const std::vector<Call> calls = {all_reduce(buffer),
                                   all_reduce(buffer, ReduceOp::max),
                                   all_reduce(integers),
                                   all_reduce(buffer.slice(0, 5)),
                                   broadcast(buffer, 0),
                                   broadcast(buffer, 1),
                                   barrier(),
                                   call_of(Operation::gather, buffer, {}, 0),
                                   call_of(Operation::all_to_all, buffer, buffer)};
  std::set<std::uint64_t> fingerprints;
  for (const Call& call : calls) fingerprints.insert(fingerprint_of(call, 3));
  CHECK(fingerprints.size() == calls.size());
  CHECK(fingerprints.count(0) == 0);
}

TEST_CASE("arguments that may differ between ranks are not in the fingerprint") {
  std::vector<float> floats(6);
  const Buffer buffer(floats);
  Call premultiplied = all_reduce(buffer, ReduceOp::premultiplied(0.5));
  Call other = all_reduce(buffer, ReduceOp::premultiplied(2));
  other.site = CallSite::current();
  CHECK(fingerprint_of(premultiplied, 2) == fingerprint_of(other, 2));
  other.name = "name";
  CHECK(fingerprint_of(premultiplied, 2) != fingerprint_of(other, 2));
  // A gather's counts differ with the rank, and only the root has an output.
  CHECK(fingerprint_of(call_of(Operation::gather, buffer, buffer, 0), 2) ==
        fingerprint_of(call_of(Operation::gather, buffer.slice(0, 2), {}, 0), 2));
}

TEST_CASE("a list of equal parts is the same call as one buffer") {
  std::vector<float> output(6);
  const Buffer whole(output);
  const Call together = all_gather(whole, whole.slice(0, 3));
  Call apart = all_gather({}, whole.slice(0, 3));
  apart.output_parts = {whole.slice(0, 3), whole.slice(3, 3)};
  CHECK(fingerprint_of(together, 2) == fingerprint_of(apart, 2));
  apart.output_parts[1] = whole.slice(3, 2);
  CHECK(fingerprint_of(together, 2) != fingerprint_of(apart, 2));
}

TEST_CASE("parts are consecutive or lie where the list says") {
  std::vector<float> values(6);
  const Buffer whole(values);
  Call call = call_of(Operation::all_to_all, whole, whole);
  CHECK(input_part(call, 1, 3).data == &values[2]);
  CHECK(output_part(call, 2, 3).count == 2);
  call.output_parts = {whole.slice(5, 1), whole.slice(0, 4), whole.slice(4, 1)};
  CHECK(output_part(call, 1, 3).data == values.data());
  CHECK(output_part(call, 1, 3).count == 4);
}

TEST_CASE("shares are disjoint, cover the buffer and begin at multiples of 64 bytes") {
  std::vector<float> values(100);
  for (const std::size_t count : {0, 1, 16, 17, 100}) {
    for (const std::size_t shares : {1, 2, 3, 8}) {
      const Buffer whole = Buffer(values).slice(0, count);
      std::size_t covered = 0;
      for (std::size_t i = 0; i < shares; ++i) {
        const Buffer share = share_of(whole, i, shares);
        CHECK(share.data == values.data() + covered);
        CHECK((share.count == 0 || covered * sizeof(float) % 64 == 0));
        covered += share.count;
      }
      CHECK(covered == count);
      CHECK(share_of(whole, shares, shares).count == 0);
    }
  }
}
