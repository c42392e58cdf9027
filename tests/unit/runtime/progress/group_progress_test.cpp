#include "runtime/progress/group_progress.h"

#include <ddp/process_group.h>

#include <algorithm>
#include <memory>
#include <string>

#include "support/catch.h"
#include "support/made_page.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

Call call_number(std::uint64_t sequence, std::uint64_t fingerprint, const std::string& name = "") {
  Call call;
  call.operation = Operation::all_reduce;
  call.input = {nullptr, 10 * sequence, DataType::f32};
  call.output = {nullptr, 10 * sequence, DataType::f32};
  call.sequence = sequence;
  call.called_at = std::chrono::steady_clock::now();
  call.fingerprint = fingerprint;
  call.name = name;
  call.site = {"train.cpp", 88};
  return call;
}

}  // namespace

TEST_CASE("the page shows each call, its progress and its place") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "ranks 0,2", 7, 1, 2);
  const wire::PageGroup& group = made.layout->groups[0];
  CHECK(group.in_use == 1);
  CHECK(std::string(group.name.data()) == "ranks 0,2");
  CHECK(group.rank == 1);
  CHECK(group.size == 2);
  progress.called(call_number(1, 7, "bucket 0"));
  progress.called(call_number(2, 8, "bucket 1"));
  progress.started(call_number(1, 7));
  CHECK(group.called == 2);
  CHECK(group.started == 1);
  CHECK(group.finished == 0);
  progress.finished(call_number(1, 7));
  CHECK(group.finished == 1);
  const wire::PageCall& call = group.calls[1];
  CHECK(call.sequence == 2);
  CHECK(call.count == 20);
  CHECK(call.line == 88);
  CHECK(std::string(call.file.data()) == "train.cpp");
  CHECK(std::string(call.name.data()) == "bucket 1");
  CHECK(call.called_at > 0);
}

TEST_CASE("equal calls have equal fingerprints, and fingerprints differ forever after a mismatch") {
  const MadePage made;
  GroupProgress a(made.map(), true, "a", 7, 0, 2);
  GroupProgress b(made.map(), true, "b", 7, 1, 2);
  const auto fingerprint = [&](int group, int place) {
    return made.layout->groups.at(group).calls.at(place).fingerprint;
  };
  a.called(call_number(1, 7));
  b.called(call_number(1, 7));
  CHECK(fingerprint(0, 0) == fingerprint(1, 0));
  a.called(call_number(2, 8));
  b.called(call_number(2, 9));
  CHECK(fingerprint(0, 1) != fingerprint(1, 1));
  a.called(call_number(3, 7));
  b.called(call_number(3, 7));
  CHECK(fingerprint(0, 2) != fingerprint(1, 2));
}

TEST_CASE("old calls are replaced, and a long path keeps its end") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "world", 7, 0, 1);
  for (std::uint64_t i = 1; i <= wire::kPageCalls + 1; ++i) {
    Call call = call_number(i, i);
    const std::string path = std::string(200, 'x') + "/train.cpp";
    call.site.file = path.c_str();
    progress.called(call);
  }
  const wire::PageGroup& group = made.layout->groups[0];
  CHECK(group.calls[0].sequence == wire::kPageCalls + 1);
  CHECK(group.calls[1].sequence == 2);
  const std::string file = group.calls[0].file.data();
  CHECK(file.size() == 79);
  CHECK(file.ends_with("/train.cpp"));
}

TEST_CASE("a group that ends frees its place, and groups without a place are counted") {
  const MadePage made;
  const StatusPage page = made.map();
  std::vector<std::unique_ptr<GroupProgress>> groups;
  for (std::size_t i = 0; i <= wire::kPageGroups; ++i) {
    groups.push_back(std::make_unique<GroupProgress>(page, true, "g" + std::to_string(i), 7, 0, 1));
  }
  CHECK(made.layout->groups_not_shown == 1);
  groups[3].reset();
  const GroupProgress next(page, true, "next", 7, 0, 1);
  CHECK(std::string(made.layout->groups[3].name.data()) == "next");
}

TEST_CASE("a finished group stays on the page until another group needs its place") {
  const MadePage made;
  const StatusPage page = made.map();
  const GroupProgress first(page, true, "first", 7, 0, 1);
  auto second = std::make_unique<GroupProgress>(page, true, "second", 8, 0, 1);
  second->called(call_number(1, 7));
  second->finished(call_number(1, 7));
  second.reset();
  CHECK(made.layout->groups[1].in_use == wire::kPageLeft);
  CHECK(made.layout->groups[1].finished == 1);
  auto third = std::make_unique<GroupProgress>(page, true, "third", 9, 0, 1);
  CHECK(std::string(made.layout->groups[1].name.data()) == "third");
  third->called(call_number(1, 7));
  third.reset();  // it was destroyed before it was done
  CHECK(made.layout->groups[1].in_use == wire::kPageFree);
}

TEST_CASE("sends and receives are counted apart from collectives") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "world", 7, 0, 2);
  Call call;
  call.operation = Operation::send;
  call.sequence = 5;
  progress.called(call);
  progress.started(call);
  progress.finished(call);
  const wire::PageGroup& group = made.layout->groups[0];
  CHECK(group.called == 0);
  CHECK(group.started == 0);
  CHECK(group.transfers_called == 1);
  CHECK(group.transfers_finished == 1);
}

namespace {

Call transfer(Operation operation, int peer, std::uint64_t number) {
  Call call = call_number(number, number);
  call.operation = operation;
  call.peer = peer;
  return call;
}

std::vector<std::uint64_t> numbers_not_done(const wire::PageGroup& group) {
  std::vector<std::uint64_t> numbers;
  for (const wire::PageTransfer& shown : group.transfers) {
    if (shown.number != 0 && shown.is_done == 0) numbers.push_back(shown.number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

TEST_CASE("a transfer is shown with its peer and its waiting threads") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "world", 7, 0, 4);
  const Call call = transfer(Operation::recv, 3, 5);
  progress.called(call);
  const wire::PageTransfer& shown = made.layout->groups[0].transfers[0];
  CHECK(shown.number == 5);
  CHECK(shown.peer == 3);
  CHECK(shown.operation == static_cast<int>(Operation::recv));
  CHECK(shown.line == 88);
  CHECK(shown.is_done == 0);
  progress.waits(call, true);
  CHECK(shown.waiters == 1);
  CHECK(made.layout->worker.waiting_threads == 1);
  progress.finished(call);
  progress.waits(call, false);
  CHECK(shown.is_done == 1);
  CHECK(shown.waiters == 0);
  CHECK(made.layout->worker.waiting_threads == 0);
}

TEST_CASE("a thread is blocked if no timeout of the program ends its wait") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "world", 7, 0, 4);
  const wire::PageGroup& group = made.layout->groups[0];
  for (Call call : {call_number(1, 1), transfer(Operation::recv, 3, 5)}) {
    progress.called(call);
    progress.waits(call, true);
    CHECK(made.layout->blocked_threads == 1);
    CHECK(made.layout->worker.blocked_thread == ::gettid());
    CHECK(group.blocked == (is_transfer(call.operation) ? 0 : 1));
    progress.waits(call, false);
    CHECK(made.layout->blocked_threads == 0);
    CHECK(group.blocked == 0);
    call.is_programs_timeout = true;
    progress.waits(call, true);
    CHECK(made.layout->worker.waiting_threads == 1);
    CHECK(made.layout->blocked_threads == 0);
    progress.waits(call, false);
  }
  progress.waits_with_limit(true);
  CHECK(made.layout->worker.waiting_threads == 1);
  CHECK(made.layout->blocked_threads == 0);
  progress.waits_with_limit(false);
  CHECK(made.layout->worker.waiting_threads == 0);
}

TEST_CASE("the progress and the waiting threads of a group without a place are counted") {
  const MadePage made;
  const StatusPage page = made.map();
  std::vector<std::unique_ptr<GroupProgress>> groups;
  for (std::size_t i = 0; i <= wire::kPageGroups; ++i) {
    groups.push_back(std::make_unique<GroupProgress>(page, true, "g" + std::to_string(i), 7, 0, 1));
  }
  const Call call = call_number(1, 1);
  groups.back()->called(call);
  groups.back()->waits(call, true);
  CHECK(made.layout->worker.waiting_threads == 1);
  CHECK(made.layout->blocked_threads == 0);
  groups.back()->finished(call);
  groups.back()->waits(call, false);
  CHECK(made.layout->worker.waiting_threads == 0);
  CHECK(made.layout->other_progress == 1);
}

TEST_CASE("completed transfers are replaced, and pending ones are kept") {
  const MadePage made;
  GroupProgress progress(made.map(), true, "world", 7, 0, 2);
  for (std::uint64_t i = 1; i <= wire::kPageTransfers + 1; ++i) progress.called(transfer(Operation::send, 1, i));
  CHECK(numbers_not_done(made.layout->groups[0]) == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  progress.finished(transfer(Operation::send, 1, 4));
  progress.called(transfer(Operation::send, 1, 10));
  CHECK(numbers_not_done(made.layout->groups[0]) == std::vector<std::uint64_t>{1, 2, 3, 5, 6, 7, 8, 10});
  progress.finished(transfer(Operation::send, 1, 9));  // the page does not show this transfer
  CHECK(made.layout->groups[0].transfers_finished == 2);
}
