#include <ddp/error.h>
#include <ddp/process_group.h>

#include <algorithm>
#include <atomic>

#include "runtime/backend/backend.h"
#include "runtime/error_file.h"
#include "runtime/group/operation_queue.h"

namespace ddp {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "unknown";
}

namespace {

std::string describe(const Buffer& buffer) {
  return std::string(to_string(buffer.type)) + "[" + std::to_string(buffer.count) + "]";
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, message);
}

}  // namespace

class ProcessGroup::Implementation {
 public:
  Implementation(std::unique_ptr<Backend> backend, int rank, int size, std::string reason)
      : rank_(rank), size_(size), name_(backend->name()), reason_(std::move(reason)), backend_(std::move(backend)) {}

  // Queues `run` under a description with this rank and the number of the call.
  Work push(const std::string& operation, const std::string& subject, std::function<void(Backend&)> run) {
    const std::uint64_t number = next_number_.fetch_add(1);
    std::string description = "rank " + std::to_string(rank_) + ": " + operation + " #" + std::to_string(number);
    if (!subject.empty()) description += " of " + subject;
    return queue_.push(description, [backend = backend_, description, run = std::move(run)] {
      try {
        run(*backend);
      } catch (const Error& error) {
        // So that the launcher can tell a victim from the rank that failed first.
        record_error(error.kind(), description + ": " + error.what());
        throw;
      }
    });
  }

  void require_rank(int rank, const char* operation) const {
    require(rank >= 0 && rank < size_, std::string(operation) + ": root " + std::to_string(rank) +
                                           " is not a rank of a group of " + std::to_string(size_));
  }

  const int rank_;
  const int size_;
  const std::string name_;
  const std::string reason_;

 private:
  std::shared_ptr<Backend> backend_;  // shared with the operations under way
  std::atomic<std::uint64_t> next_number_ = 1;
  OperationQueue queue_;
};

ProcessGroup::ProcessGroup(std::unique_ptr<Backend> backend, int rank, int size, std::string backend_reason)
    : implementation_(std::make_unique<Implementation>(std::move(backend), rank, size, std::move(backend_reason))) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const {
  return implementation_->rank_;
}
int ProcessGroup::size() const {
  return implementation_->size_;
}
const std::string& ProcessGroup::backend() const {
  return implementation_->name_;
}
const std::string& ProcessGroup::backend_reason() const {
  return implementation_->reason_;
}

Work ProcessGroup::all_reduce(Buffer buffer, ReduceOp op) {
  require(op != ReduceOp::average || buffer.type == DataType::f32 || buffer.type == DataType::f64,
          "all_reduce: average needs f32 or f64, not " + std::string(to_string(buffer.type)));
  return implementation_->push("all_reduce " + std::string(to_string(op)), describe(buffer),
                               [buffer, op](Backend& backend) {
                                 if (buffer.count > 0) backend.all_reduce(buffer, op);
                               });
}

Work ProcessGroup::broadcast(Buffer buffer, int root) {
  implementation_->require_rank(root, "broadcast");
  return implementation_->push("broadcast from rank " + std::to_string(root), describe(buffer),
                               [buffer, root](Backend& backend) {
                                 if (buffer.count > 0) backend.broadcast(buffer, root);
                               });
}

Work ProcessGroup::all_gather(Buffer output, Buffer input) {
  require(output.type == input.type && output.count == input.count * static_cast<std::size_t>(size()),
          "all_gather: the output " + describe(output) + " must hold " + std::to_string(size()) + " times the input " +
              describe(input));
  return implementation_->push("all_gather", describe(input), [output, input](Backend& backend) {
    if (input.count > 0) backend.all_gather(output, input);
  });
}

Work ProcessGroup::barrier() {
  return implementation_->push("barrier", "", [](Backend& backend) { backend.barrier(); });
}

std::vector<std::string> ProcessGroup::all_gather_bytes(std::string_view bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(ranks);
  all_gather(lengths, length).wait();
  // Every rank sends as many bytes as the longest one has.
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::uint8_t> padded(longest);
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  std::vector<std::uint8_t> all(longest * ranks);
  all_gather(all, padded).wait();
  std::vector<std::string> result;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto* first = reinterpret_cast<const char*>(all.data()) + rank * longest;
    result.emplace_back(first, static_cast<std::size_t>(lengths[rank]));
  }
  return result;
}

std::string ProcessGroup::broadcast_bytes(std::string_view bytes, int root) {
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(bytes.size())};
  broadcast(length, root).wait();
  std::string result(static_cast<std::size_t>(length[0]), '\0');
  if (rank() == root) result = bytes;
  broadcast({result.data(), result.size(), DataType::u8}, root).wait();
  return result;
}

}  // namespace ddp
