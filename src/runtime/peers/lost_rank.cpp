#include "runtime/peers/lost_rank.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/side_thread.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

constexpr const char* kKey = "lost_rank";

// Encodes the rank and the text, separated by a newline. The rank is -1 if it is unknown.
std::string encode(const Error& failure) {
  return std::to_string(failure.peer()) + "\n" + failure.what();
}
Error decode(const std::string& word, ErrorKind kind) {
  const std::size_t end = word.find('\n');
  if (end == std::string::npos) return {kind, word};
  return {kind, word.substr(end + 1), std::atoi(word.c_str())};
}

// Runs `action` and returns its result, or an empty string if it does not end in time. The server may have been lost
// with the rank; then the thread is left behind.
std::string in_time(std::chrono::milliseconds limit, std::function<std::string()> action) {
  std::future<std::string> word = base::on_side_thread(std::move(action));
  try {
    return word.wait_for(limit) == std::future_status::ready ? word.get() : "";
  } catch (const Error&) {
    return "";
  }
}

void wait_for_word(Store& store) {
  const std::string key = kKey;
  try {
    store.wait({&key, 1}, limits::kLostRankWait);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timeout) throw;
  }
}

}  // namespace

LostRank::LostRank(std::shared_ptr<const NodeGroup> node, std::shared_ptr<Store> store,
                   std::chrono::milliseconds answers_within)
    : node_(std::move(node)), store_(std::move(store)), answers_within_(answers_within) {}

Error LostRank::agree(const Error& failure) {
  if (failure.kind() != ErrorKind::peer_lost && failure.kind() != ErrorKind::timeout) return failure;
  const std::lock_guard lock(mutex_);
  const std::string own = encode(failure);
  if (is_known_here(failure)) {
    if (settled_ != own) {
      in_time(answers_within_, [store = store_, own] {
        store->set(kKey, own);
        return store->get(kKey);
      });
    }
    settled_ = own;
    return failure;
  }
  if (!settled_) {
    // A rank that does not know the cause waits for another rank's report. A rank that gives up has reported its reason
    // before. The node of a late rank reports it at about the same time.
    const bool waits = failure.kind() == ErrorKind::timeout || failure.peer() == Error::kNobody;
    const auto limit = waits ? answers_within_ + limits::kLostRankWait : answers_within_;
    settled_ = in_time(limit, [store = store_, own, waits] {
      if (waits) wait_for_word(*store);
      return store->compare_set(kKey, "", own);
    });
    if (settled_->empty()) settled_ = own + "; the store, to which ranks report why they fail, does not answer either";
  }
  return decode(*settled_, failure.kind());
}

bool LostRank::is_known_here(const Error& failure) const {
  if (!node_->holds(failure.peer())) return false;
  const std::size_t index = node_->index_of(failure.peer());
  if (failure.kind() == ErrorKind::timeout) return !node_->gone(index);
  return node_->ended(index) && node_->area(index).state != RankState::failed;
}

}  // namespace ddp::internal
