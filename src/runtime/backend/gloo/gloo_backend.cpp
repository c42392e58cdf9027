// This backend runs collectives over GlooContext's messages. Each collective is one or two steps in which every rank
// sends something to every other rank. With n ranks, a rank sends as many bytes as in a ring, but in two steps instead
// of 2(n - 1).
//
// Messages are matched by a tag. The tag is a hash of the call's number and of all values on which the ranks' calls
// must agree. So ranks whose calls differ wait for each other until the timeout, instead of taking each other's data.
#include <ddp/error.h>

#include <algorithm>
#include <deque>
#include <span>

#include "base/hash.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/gloo/gloo_context.h"
#include "runtime/call/transfer_plan.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

// kPiece limits the data that a rank reduces at a time; kMostReceived limits the data that it receives for that. Pieces
// are not smaller, because all ranks must synchronize for each piece, which takes long if the processors are busy.
// Pieces are not larger, because they would leave the caches before they are reduced.
constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kMostReceived = std::size_t{32} << 20;
// Up to this size, the whole buffer is sent to every rank, which saves the second step.
constexpr std::size_t kOneStep = std::size_t{16} << 10;
// Between two ranks, one step sends no more bytes than two steps. Each rank only reduces more.
constexpr std::size_t kOneStepOfTwo = std::size_t{512} << 10;

class GlooBackend : public Backend {
 public:
  GlooBackend(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : rank_(options.rank), size_(options.size), context_(GlooContext::connect(options, std::move(store))) {}

  std::string_view name() const override { return "gloo"; }

  void abort() override { context_->abort(); }

  void run(const Call& call) override {
    switch (call.operation) {
      case Operation::all_reduce:
      case Operation::reduce:
        return all_reduce(call);
      case Operation::reduce_scatter:
        return reduce_scatter(call);
      case Operation::barrier:
        return barrier(call);
      case Operation::send:
        return send(call);
      case Operation::recv:
        return receive(call);
      default:
        return move(call);
    }
  }

 private:
  using Messages = std::vector<GlooMessage>;

  void send(const Call& call) {
    if (call.input.count == 0) return;
    const GlooMessage message = outgoing(call.peer, call.input);
    context_->start({&message, 1}, {}, tag(call, 0), call.timeout)->wait();
  }
  void receive(const Call& call) {
    if (call.output.count == 0) return;
    const GlooMessage message{call.peer, call.output.data, call.output.bytes()};
    context_->start({}, {&message, 1}, tag(call, 0), call.timeout)->wait();
  }

  // Sends one byte to each rank and receives one byte from each rank.
  void barrier(const Call& call) {
    std::byte given{};
    std::vector<std::byte> taken(static_cast<std::size_t>(size_));
    exchange(
        call, 0, [&](int) { return ConstBuffer(&given, 1, DataType::u8); },
        [&](int from) { return Buffer(&taken[static_cast<std::size_t>(from)], 1, DataType::u8); });
  }

  void move(const Call& call) {
    const TransferPlan plan{call, rank_, size_};
    exchange(
        call, 0, [&](int to) { return plan.given_to(to); }, [&](int from) { return plan.taken_from(from); });
    plan.keep_own();
  }

  // Every rank sends each other rank the part that this other rank reduces. A factor that only this rank knows is
  // multiplied before.
  void reduce_scatter(const Call& call) {
    std::vector<std::byte> scaled;
    Call given = call;
    if (call.op.kind == ReduceOp::premultiplied_sum) given = premultiplied(call, scaled);
    const std::size_t length = piece_length(call.output.type);
    std::size_t pieces = 0;
    for (int rank = 0; rank < size_; ++rank) {
      pieces = std::max(pieces, pieces_of(input_part(given, rank, size_).count, length));
    }
    const auto input = [&](std::size_t piece, int rank) {
      return piece_of(input_part(given, rank, size_), piece, length);
    };
    const auto result = [&](std::size_t piece) { return piece_of(call.output, piece, length); };
    reduce_pieces(call, pieces, input, result, [](std::size_t) { return nullptr; });
  }

  Call premultiplied(const Call& call, std::vector<std::byte>& scaled) const {
    Call result = call;
    std::size_t bytes = 0;
    for (int peer = 0; peer < size_; ++peer) bytes += input_part(call, peer, size_).bytes();
    scaled.resize(bytes);
    result.input_parts.clear();
    void* place = scaled.data();
    for (int peer = 0; peer < size_; ++peer) {
      const ConstBuffer part = input_part(call, peer, size_);
      const ReductionSource source{part.data, call.op.factor};
      if (part.count > 0) internal::reduce(part.type, call.op, {&source, 1}, {&place, 1}, part.count);
      result.input_parts.emplace_back(place, part.count, part.type);
      place = static_cast<std::byte*>(place) + part.bytes();
    }
    return result;
  }

  void all_reduce(const Call& call) {
    const Buffer& buffer = call.output;
    const bool to_root = call.operation == Operation::reduce;
    std::vector<std::byte> copy;
    Buffer work = buffer;
    if (to_root && rank_ != call.peer) {  // the buffer of a rank that is not the root stays unchanged
      const auto* bytes = static_cast<const std::byte*>(buffer.data);
      copy.assign(bytes, bytes + buffer.bytes());
      work.data = copy.data();
    }
    if (call.op.kind == ReduceOp::premultiplied_sum) scale(work, call.op.factor);
    if (call.operation == Operation::all_reduce && work.bytes() <= (size_ == 2 ? kOneStepOfTwo : kOneStep)) {
      return reduce_in_one_step(call, work);
    }
    reduce_in_two_steps(call, work);
  }

  // Every rank gets all ranks' data and reduces all of it.
  void reduce_in_one_step(const Call& call, const Buffer& data) {
    reserve(data.bytes());
    exchange(
        call, 0, [&](int) { return data; },
        [&](int from) { return Buffer(received_from(from, 0, data.bytes()), data.count, data.type); });
    reduce(call, data, data, 0, data.bytes());
  }

  // Every piece has a share for each rank. A rank reduces its share and sends the result to all ranks, or to the root.
  void reduce_in_two_steps(const Call& call, const Buffer& data) {
    const bool to_root = call.operation == Operation::reduce;
    const auto ranks = static_cast<std::size_t>(size_);
    const std::size_t length = piece_length(data.type) * ranks;
    const auto share = [&](std::size_t piece, int rank) {
      return share_of(piece_of(data, piece, length), static_cast<std::size_t>(rank), ranks);
    };
    const auto own = [&](std::size_t piece) { return share(piece, rank_); };
    reduce_pieces(call, pieces_of(data.count, length), share, own, [&](std::size_t piece) {
      return start(
          call, 2 * piece + 1, [&](int to) { return !to_root || to == call.peer ? own(piece) : Buffer(); },
          [&](int from) { return !to_root || rank_ == call.peer ? share(piece, from) : Buffer(); });
    });
  }

  // For each piece, sends every rank its input, reduces this rank's input with the data of the others, and calls
  // start_next(). Meanwhile, the next piece's inputs and the previous pieces' results are under way. No result is
  // longer than the first piece's.
  template <typename Input, typename Result, typename StartNext>
  void reduce_pieces(const Call& call, std::size_t pieces, const Input& input, const Result& result,
                     const StartNext& start_next) {
    if (pieces == 0) return;
    const std::size_t bytes = result(0).bytes();
    reserve(2 * bytes);
    const auto start_inputs = [&](std::size_t piece) {
      const Buffer own = result(piece);
      return start(
          call, 2 * piece, [&](int to) { return input(piece, to); },
          [&](int from) { return Buffer(received_from(from, piece % 2, bytes), own.count, own.type); });
    };
    std::unique_ptr<GlooTransfers> inputs = start_inputs(0);
    std::deque<std::unique_ptr<GlooTransfers>> following;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      std::unique_ptr<GlooTransfers> next_inputs = piece + 1 < pieces ? start_inputs(piece + 1) : nullptr;
      inputs->wait();
      reduce(call, input(piece, rank_), result(piece), piece % 2, bytes);
      following.push_back(start_next(piece));
      if (following.size() > 2) {
        wait(following.front());
        following.pop_front();
      }
      inputs = std::move(next_inputs);
    }
    for (const std::unique_ptr<GlooTransfers>& last : following) wait(last);
  }
  static void wait(const std::unique_ptr<GlooTransfers>& transfers) {
    if (transfers) transfers->wait();
  }

  std::size_t piece_length(DataType type) const {
    return std::min(kPiece, kMostReceived / static_cast<std::size_t>(size_)) / size_of(type);
  }
  static std::size_t pieces_of(std::size_t count, std::size_t length) { return (count + length - 1) / length; }
  template <typename AnyBuffer>
  static AnyBuffer piece_of(const AnyBuffer& buffer, std::size_t piece, std::size_t length) {
    const std::size_t first = std::min(piece * length, buffer.count);
    return buffer.slice(first, std::min(length, buffer.count - first));
  }

  // Reserves memory for this many bytes from each rank.
  void reserve(std::size_t bytes) {
    const std::size_t needed = bytes * static_cast<std::size_t>(size_);
    if (received_.size() < needed) received_.resize(needed);
  }
  // Returns where `bytes` from a rank are received, if all ranks send this many bytes for `turn`.
  std::byte* received_from(int rank, std::size_t turn, std::size_t bytes) {
    return received_.data() + (turn * static_cast<std::size_t>(size_) + static_cast<std::size_t>(rank)) * bytes;
  }

  // Reduces this rank's input with the data received from the others, in rank order.
  void reduce(const Call& call, const ConstBuffer& own, const Buffer& result, std::size_t turn, std::size_t bytes) {
    const double factor = call.op.kind == ReduceOp::average ? 1.0 / size_ : 1;
    sources_.clear();
    for (int from = 0; from < size_; ++from) {
      sources_.push_back({from == rank_ ? own.data : received_from(from, turn, bytes), factor});
    }
    internal::reduce(result.type, call.op, sources_, {&result.data, 1}, result.count);
  }

  // Sends each rank the data that give(rank) returns, and receives from each rank into take(rank). Empty buffers are
  // skipped.
  template <typename Give, typename Take>
  void exchange(const Call& call, std::uint64_t step, const Give& give, const Take& take) {
    start(call, step, give, take)->wait();
  }
  template <typename Give, typename Take>
  std::unique_ptr<GlooTransfers> start(const Call& call, std::uint64_t step, const Give& give, const Take& take) {
    Messages out;
    Messages in;
    for (int turn = 1; turn < size_; ++turn) {
      const int to = (rank_ + turn) % size_;
      const int from = (rank_ + size_ - turn) % size_;
      const ConstBuffer given = give(to);
      const Buffer taken = take(from);
      if (given.count > 0) out.push_back(outgoing(to, given));
      if (taken.count > 0) in.push_back({from, taken.data, taken.bytes()});
    }
    return context_->start(out, in, tag(call, step), call.timeout);
  }

  static GlooMessage outgoing(int peer, const ConstBuffer& buffer) {
    return {peer, const_cast<void*>(buffer.data), buffer.bytes()};
  }

  static std::uint64_t tag(const Call& call, std::uint64_t step) {
    const bool transfer = is_transfer(call.operation);
    const std::uint64_t what = transfer ? static_cast<std::uint64_t>(subject_of(call).type) : call.fingerprint;
    base::Fnv1a64 hash;
    for (const std::uint64_t number : {what, call.sequence, step, static_cast<std::uint64_t>(transfer)}) {
      hash.update(std::as_bytes(std::span(&number, 1)));
    }
    return hash.value();
  }

  const int rank_;
  const int size_;
  const std::unique_ptr<GlooContext> context_;
  // These vectors are kept between calls.
  std::vector<ReductionSource> sources_;
  std::vector<std::byte> received_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<GlooBackend>(options, std::move(store));
}

}  // namespace ddp::internal
