// Collectives over GlooContext's messages. Each is one or two steps in which every rank sends something to every other
// one: with n ranks as many bytes leave a rank as in a ring, in two steps instead of 2(n - 1).
//
// Messages meet by a tag. Ours is a hash of the call's number and of all that the ranks must have called alike, so that
// ranks that differ wait for each other until the time-out, instead of taking each other's data.
#include "runtime/backend/gloo/gloo_backend.h"

#include <ddp/error.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "runtime/backend/gloo/gloo_context.h"
#include "runtime/group/movement.h"
#include "runtime/reduction/reduction.h"

namespace ddp {
namespace {

// Exchanged and reduced at once, which bounds the memory for what others send. More than one under way at the same time
// makes Gloo slower, not faster: its thread and the one that sends get into each other's way. Smaller ones cost a
// meeting of all ranks each: 25 MiB in segments of 8 MiB take a tenth longer.
constexpr std::size_t kSegment = std::size_t{32} << 20;
// Up to this the whole buffer goes to every rank, which saves the second step.
constexpr std::size_t kOneStep = std::size_t{16} << 10;
// Between two ranks that sends no more bytes than two steps, only more is reduced.
constexpr std::size_t kOneStepOfTwo = std::size_t{512} << 10;

class GlooBackend : public Backend {
 public:
  GlooBackend(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : rank_(options.rank), size_(options.size), context_(GlooContext::connect(options, std::move(store))) {}

  std::string_view name() const override { return "gloo"; }

  void abort() override { context_->abort(); }

  void run(const Call& call) override {
    require_host(call.input);
    require_host(call.output);
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

  // One byte to each and from each.
  void barrier(const Call& call) {
    std::byte given{};
    std::vector<std::byte> taken(static_cast<std::size_t>(size_));
    exchange(
        call, 0, [&](int) { return ConstBuffer(&given, 1, DataType::u8); },
        [&](int from) { return Buffer(&taken[static_cast<std::size_t>(from)], 1, DataType::u8); });
  }

  void move(const Call& call) {
    const Movement movement{call, rank_, size_};
    exchange(
        call, 0, [&](int to) { return movement.given_to(to); }, [&](int from) { return movement.taken_from(from); });
    movement.keep_own();
  }

  // Every rank sends each other its part, and reduces what it gets in rank order. A factor that only this rank knows is
  // multiplied before.
  void reduce_scatter(const Call& call) {
    const Buffer& output = call.output;
    std::vector<std::byte> received(output.bytes() * static_cast<std::size_t>(size_));
    std::vector<std::byte> scaled;
    Call given = call;
    if (call.op.kind == ReduceOp::premultiplied_sum) given = premultiplied(call, scaled);
    const auto place = [&](int from) { return received.data() + output.bytes() * static_cast<std::size_t>(from); };
    exchange(
        call, 0, [&](int to) { return input_part(given, to, size_); },
        [&](int from) { return Buffer(place(from), output.count, output.type); });
    const double factor = call.op.kind == ReduceOp::average ? 1.0 / size_ : 1;
    sources_.clear();
    for (int from = 0; from < size_; ++from) {
      sources_.push_back({from == rank_ ? input_part(given, rank_, size_).data : place(from), factor});
    }
    ddp::reduce(output.type, call.op, sources_, {&output.data, 1}, output.count);
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
      if (part.count > 0) ddp::reduce(part.type, call.op, {&source, 1}, {&place, 1}, part.count);
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
    if (to_root && rank_ != call.peer) {  // its buffer stays as it is
      const auto* bytes = static_cast<const std::byte*>(buffer.data);
      copy.assign(bytes, bytes + buffer.bytes());
      work.data = copy.data();
    }
    if (call.op.kind == ReduceOp::premultiplied_sum) scale(work, call.op.factor);
    const std::size_t segment = kSegment / size_of(buffer.type);
    std::uint64_t step = 0;
    for (std::size_t first = 0; first < work.count; first += segment) {
      reduce_segment(call, work.slice(first, std::min(segment, work.count - first)), step);
      step += 2;
    }
  }

  // Every rank reduces its share of all ranks' data, and gives the result to all, or to the root. In one step: every
  // rank reduces all of it.
  void reduce_segment(const Call& call, const Buffer& data, std::uint64_t step) {
    const std::size_t most = size_ == 2 ? kOneStepOfTwo : kOneStep;
    const bool one_step = call.operation == Operation::all_reduce && data.bytes() <= most;
    const auto share = [&](int rank) {
      return one_step ? data : share_of(data, static_cast<std::size_t>(rank), static_cast<std::size_t>(size_));
    };
    const Buffer own = share(rank_);
    received_.resize(own.bytes() * static_cast<std::size_t>(size_));
    const auto place = [&](int from) { return received_.data() + own.bytes() * static_cast<std::size_t>(from); };
    exchange(call, step, share, [&](int from) { return Buffer(place(from), own.count, own.type); });

    const double factor = call.op.kind == ReduceOp::average ? 1.0 / size_ : 1;
    sources_.clear();
    for (int from = 0; from < size_; ++from) {
      sources_.push_back({from == rank_ ? static_cast<const std::byte*>(own.data) : place(from), factor});
    }
    ddp::reduce(own.type, call.op, sources_, {&own.data, 1}, own.count);
    if (one_step) return;
    const bool to_root = call.operation == Operation::reduce;
    exchange(
        call, step + 1, [&](int to) { return !to_root || to == call.peer ? own : Buffer(); },
        [&](int from) { return !to_root || rank_ == call.peer ? share(from) : Buffer(); });
  }

  // Sends each rank what give(rank) says and receives from each into take(rank), but for what is empty.
  template <typename Give, typename Take>
  void exchange(const Call& call, std::uint64_t step, const Give& give, const Take& take) {
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
    context_->start(out, in, tag(call, step), call.timeout)->wait();
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

  static void require_host(const ConstBuffer& buffer) {
    if (buffer.device == DeviceType::cpu) return;
    throw Error(ErrorKind::unavailable,
                "backend gloo works on host memory only; this buffer is in GPU memory. Use nccl.");
  }

  const int rank_;
  const int size_;
  const std::unique_ptr<GlooContext> context_;
  // Kept from call to call.
  std::vector<ReductionSource> sources_;
  std::vector<std::byte> received_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<GlooBackend>(options, std::move(store));
}

}  // namespace ddp
