// Checks each operation of a group against a reference in double precision. Every rank calls the same checks. A wrong
// element throws.
#pragma once

#include <ddp/process_group.h>

#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/require.h"
#include "support/typed_values.h"

namespace ddp::test {

inline constexpr std::array kKinds = {ReduceOp::sum,    ReduceOp::average, ReduceOp::product,
                                      ReduceOp::min,    ReduceOp::max,     ReduceOp::bit_and,
                                      ReduceOp::bit_or, ReduceOp::bit_xor, ReduceOp::premultiplied_sum};

// Holds one rank's side of one check.
class Check {
 public:
  // `device` is the memory of the values; null means host memory.
  Check(ProcessGroup& group, DataType type, std::size_t count, const DeviceMemory* device = nullptr)
      : group_(group), type_(type), count_(count), device_(device) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  auto ranks() const { return static_cast<std::size_t>(size()); }
  ProcessGroup& group() { return group_; }
  DataType type() const { return type_; }
  std::size_t count() const { return count_; }

  // Returns this rank's `parts` * count elements. On some ranks they are not aligned for vectors.
  Values own(std::size_t parts = 1) const {
    Values values(type_, parts * count_, static_cast<std::size_t>(rank()) % 2 * size_of(type_), device_);
    for (std::size_t i = 0; i < values.count(); ++i) values.set(i, value_at(type_, rank(), i));
    return values;
  }
  Values empty(std::size_t parts = 1) const { return {type_, parts * count_, size_of(type_), device_}; }

  ReduceOp op(ReduceOp::Kind kind) const {
    return kind == ReduceOp::premultiplied_sum ? ReduceOp::premultiplied(premultiplier(rank())) : ReduceOp(kind);
  }
  double reduction(ReduceOp::Kind kind, std::size_t i) const {
    std::array<double, 8> values{};
    for (int other = 0; other < size(); ++other) values[static_cast<std::size_t>(other)] = value_at(type_, other, i);
    return reduced(type_, kind, std::span(values).first(ranks()));
  }
  // Requires that elements first, first + 1, … of `values` equal expected(0), expected(1), …
  void expect(const Values& values, std::size_t first, std::size_t count, const std::string& what, bool exact,
              const std::function<double(std::size_t)>& expected) const {
    const double bound = exact ? 0 : tolerance(type_, size());
    for (std::size_t i = 0; i < count; ++i) {
      const double should = expected(i);
      if (std::abs(values[first + i] - should) <= bound * std::abs(should)) continue;
      require(false, what + " of " + std::string(to_string(type_)) + "[" + std::to_string(count_) + "] on rank " +
                         std::to_string(rank()) + ": element " + std::to_string(first + i) + " is " +
                         std::to_string(values[first + i]) + ", not " + std::to_string(should));
    }
  }

 private:
  ProcessGroup& group_;
  DataType type_;
  std::size_t count_;
  const DeviceMemory* device_;
};

inline void check_all_reduce(Check& check, ReduceOp::Kind kind) {
  Values values = check.own();
  check.group().all_reduce(values.buffer(), check.op(kind)).wait();
  check.expect(values, 0, check.count(), "all_reduce " + std::string(to_string(kind)), false,
               [&](std::size_t i) { return check.reduction(kind, i); });
}

inline void check_reduce(Check& check, ReduceOp::Kind kind) {
  const int root = static_cast<int>(check.count()) % check.size();
  Values values = check.own();
  check.group().reduce(values.buffer(), root, check.op(kind)).wait();
  const bool is_root = check.rank() == root;
  check.expect(values, 0, check.count(), "reduce " + std::string(to_string(kind)), !is_root, [&](std::size_t i) {
    return is_root ? check.reduction(kind, i) : value_at(check.type(), check.rank(), i);
  });
}

inline void check_reduce_scatter(Check& check, ReduceOp::Kind kind) {
  Values input = check.own(check.ranks());
  Values output = check.empty();
  check.group().reduce_scatter(output.buffer(), input.buffer(), check.op(kind)).wait();
  const std::size_t first = static_cast<std::size_t>(check.rank()) * check.count();
  check.expect(output, 0, check.count(), "reduce_scatter " + std::string(to_string(kind)), false,
               [&](std::size_t i) { return check.reduction(kind, first + i); });
}

inline void check_broadcast(Check& check) {
  for (int root = 0; root < check.size(); ++root) {
    Values values = check.own();
    check.group().broadcast(values.buffer(), root).wait();
    check.expect(values, 0, check.count(), "broadcast", true,
                 [&](std::size_t i) { return value_at(check.type(), root, i); });
  }
}

inline void check_all_gather(Check& check) {
  Values input = check.own();
  Values output = check.empty(check.ranks());
  check.group().all_gather(output.buffer(), input.buffer()).wait();
  // In place, this rank's part of the output is its input.
  Values in_place = check.empty(check.ranks());
  const std::size_t own = static_cast<std::size_t>(check.rank()) * check.count();
  for (std::size_t i = 0; i < check.count(); ++i) in_place.set(own + i, input[i]);
  check.group().all_gather(in_place.buffer(), in_place.buffer().slice(own, check.count())).wait();
  for (int from = 0; from < check.size(); ++from) {
    const std::size_t first = static_cast<std::size_t>(from) * check.count();
    const auto expected = [&](std::size_t i) { return value_at(check.type(), from, i); };
    check.expect(output, first, check.count(), "all_gather", true, expected);
    check.expect(in_place, first, check.count(), "all_gather in place", true, expected);
  }
}

inline void check_gather_and_scatter(Check& check) {
  for (int root = 0; root < check.size(); root += 2) {
    Values input = check.own();
    Values gathered = check.empty(check.ranks());
    const bool is_root = check.rank() == root;
    check.group().gather(is_root ? gathered.buffer() : Buffer(), input.buffer(), root).wait();
    for (int from = 0; is_root && from < check.size(); ++from) {
      check.expect(gathered, static_cast<std::size_t>(from) * check.count(), check.count(), "gather", true,
                   [&](std::size_t i) { return value_at(check.type(), from, i); });
    }
    Values whole = check.own(check.ranks());
    Values part = check.empty();
    check.group().scatter(part.buffer(), is_root ? whole.buffer() : Buffer(), root).wait();
    const std::size_t first = static_cast<std::size_t>(check.rank()) * check.count();
    check.expect(part, 0, check.count(), "scatter", true,
                 [&](std::size_t i) { return value_at(check.type(), root, first + i); });
  }
}

inline void check_all_to_all(Check& check) {
  Values input = check.own(check.ranks());
  Values output = check.empty(check.ranks());
  check.group().all_to_all(output.buffer(), input.buffer()).wait();
  const std::size_t own = static_cast<std::size_t>(check.rank()) * check.count();
  for (int from = 0; from < check.size(); ++from) {
    check.expect(output, static_cast<std::size_t>(from) * check.count(), check.count(), "all_to_all", true,
                 [&](std::size_t i) { return value_at(check.type(), from, own + i); });
  }
}

// Sends around the ring in both directions at the same time. No send waits for a collective.
inline void check_send_and_recv(Check& check) {
  if (check.size() == 1) return;
  const int next = (check.rank() + 1) % check.size();
  const int previous = (check.rank() + check.size() - 1) % check.size();
  Values given = check.own();
  Values from_previous = check.empty();
  Values from_next = check.empty();
  Work works[] = {check.group().send(given.buffer(), next), check.group().send(given.buffer(), previous),
                  check.group().recv(from_previous.buffer(), previous), check.group().recv(from_next.buffer(), next)};
  for (Work& work : works) work.wait();
  check.expect(from_previous, 0, check.count(), "recv", true,
               [&](std::size_t i) { return value_at(check.type(), previous, i); });
  check.expect(from_next, 0, check.count(), "recv", true,
               [&](std::size_t i) { return value_at(check.type(), next, i); });
}

inline void check_everything(ProcessGroup& group, DataType type, std::size_t count,
                             const DeviceMemory* device = nullptr) {
  Check check(group, type, count, device);
  for (const auto kind : kKinds) {
    if (!is_defined(kind, type)) continue;
    check_all_reduce(check, kind);
    check_reduce(check, kind);
    check_reduce_scatter(check, kind);
  }
  check_broadcast(check);
  check_all_gather(check);
  check_gather_and_scatter(check);
  check_all_to_all(check);
  check_send_and_recv(check);
}

}  // namespace ddp::test
