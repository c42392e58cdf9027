// Collectives over GlooContext's messages. Each is one or two steps in which every rank sends something to every other
// one: with n ranks as many bytes leave a rank as in a ring, in two steps instead of 2(n - 1).
//
// Messages meet by a tag. Ours is a hash of the call's number and of all that the ranks must have called alike, so that
// ranks that differ wait for each other until the time-out, instead of taking each other's data.
#include "runtime/backend/gloo/gloo_backend.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/hash.h"
#include "runtime/backend/gloo/gloo_context.h"
#include "runtime/group/movement.h"
#include "runtime/reduction/reduction.h"

namespace ddp {
namespace {

// Reduced at once: while one segment is reduced the next one is on its way.
constexpr std::size_t kSegment = std::size_t{1} << 20;
// Up to this the whole buffer goes to every rank, which saves the second step.
constexpr std::size_t kOneStep = std::size_t{16} << 10;

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
    Messages out;
    Messages in;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      out.push_back({peer, &given, 1});
      in.push_back({peer, &taken[static_cast<std::size_t>(peer)], 1});
    }
    context_->start(out, in, tag(call, 0), call.timeout)->wait();
  }

  void move(const Call& call) {
    const Movement movement{call, rank_, size_};
    Messages out;
    Messages in;
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      const int from = (rank_ + size_ - step) % size_;
      if (const ConstBuffer given = movement.given_to(to); given.count > 0) out.push_back(outgoing(to, given));
      if (const Buffer taken = movement.taken_from(from); taken.count > 0) {
        in.push_back({from, taken.data, taken.bytes()});
      }
    }
    const auto transfers = context_->start(out, in, tag(call, 0), call.timeout);
    const ConstBuffer own = movement.given_to(rank_);
    const Buffer place = movement.taken_from(rank_);
    if (own.count > 0 && own.data != place.data) std::memmove(place.data, own.data, own.bytes());
    transfers->wait();
  }

  // Every rank sends each other its part, and reduces what it gets in rank order. A factor that only this rank knows is
  // multiplied before.
  void reduce_scatter(const Call& call) {
    const Buffer& output = call.output;
    std::vector<std::byte> received(output.bytes() * static_cast<std::size_t>(size_));
    std::vector<std::byte> scaled;
    Call given = call;
    if (call.op.kind == ReduceOp::premultiplied_sum) given = premultiplied(call, scaled);
    Messages out;
    Messages in;
    std::vector<ReductionSource> sources;
    const double factor = call.op.kind == ReduceOp::average ? 1.0 / size_ : 1;
    for (int peer = 0; peer < size_; ++peer) {
      const ConstBuffer part = input_part(given, peer, size_);
      std::byte* place = received.data() + output.bytes() * static_cast<std::size_t>(peer);
      sources.push_back({peer == rank_ ? part.data : place, factor});
      if (peer == rank_) continue;
      if (part.count > 0) out.push_back(outgoing(peer, part));
      if (output.count > 0) in.push_back({peer, place, output.bytes()});
    }
    context_->start(out, in, tag(call, 0), call.timeout)->wait();
    ddp::reduce(output.type, call.op, sources, {&output.data, 1}, output.count);
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
    const std::size_t segments = (work.count + segment - 1) / segment;
    std::array<Segment, 2> under_way;
    const auto piece = [&](std::size_t number) {
      return work.slice(number * segment, std::min(segment, work.count - number * segment));
    };
    start_segment(call, under_way[0], piece(0), 0);
    for (std::size_t number = 0; number < segments; ++number) {
      Segment& current = under_way[number % 2];
      Segment& next = under_way[(number + 1) % 2];
      current.transfers->wait();
      // The other place still holds the results of the segment before.
      if (next.results) next.results->wait();
      next.results.reset();
      if (number + 1 < segments) start_segment(call, next, piece(number + 1), number + 1);
      reduce_segment(call, current, number);
    }
    for (Segment& segment_left : under_way) {
      if (segment_left.results) segment_left.results->wait();
    }
  }

  // A piece of the buffer, on its way to be reduced.
  struct Segment {
    Buffer data;
    bool one_step = false;
    std::vector<std::byte> received;
    std::unique_ptr<GlooTransfers> transfers;  // of inputs
    std::unique_ptr<GlooTransfers> results;    // of what each rank has reduced
  };

  // What a rank reduces of a segment.
  Buffer share_of(const Segment& segment, int rank) const {
    if (segment.one_step) return segment.data;
    const auto ranks = static_cast<std::size_t>(size_);
    const std::size_t share = (segment.data.count + ranks - 1) / ranks;
    const std::size_t first = std::min(segment.data.count, static_cast<std::size_t>(rank) * share);
    return segment.data.slice(first, std::min(share, segment.data.count - first));
  }

  void start_segment(const Call& call, Segment& segment, const Buffer& data, std::size_t number) {
    segment.data = data;
    segment.one_step = call.operation == Operation::all_reduce && (size_ == 2 || data.bytes() <= kOneStep);
    const Buffer own = share_of(segment, rank_);
    segment.received.resize(own.bytes() * static_cast<std::size_t>(size_));
    Messages out;
    Messages in;
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      const int from = (rank_ + size_ - step) % size_;
      if (const Buffer share = share_of(segment, to); share.count > 0) out.push_back(outgoing(to, share));
      if (own.count > 0) in.push_back({from, place(segment, from, own), own.bytes()});
    }
    segment.transfers = context_->start(out, in, tag(call, 2 * number), call.timeout);
  }

  static std::byte* place(Segment& segment, int from, const Buffer& own) {
    return segment.received.data() + own.bytes() * static_cast<std::size_t>(from);
  }

  void reduce_segment(const Call& call, Segment& segment, std::size_t number) {
    const Buffer own = share_of(segment, rank_);
    const double factor = call.op.kind == ReduceOp::average ? 1.0 / size_ : 1;
    sources_.clear();
    for (int from = 0; from < size_; ++from) {
      sources_.push_back({from == rank_ ? static_cast<const std::byte*>(own.data) : place(segment, from, own), factor});
    }
    ddp::reduce(own.type, call.op, sources_, {&own.data, 1}, own.count);
    if (segment.one_step) return;
    Messages out;
    Messages in;
    const bool to_root = call.operation == Operation::reduce;
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      const int from = (rank_ + size_ - step) % size_;
      const Buffer theirs = share_of(segment, from);
      if (own.count > 0 && (!to_root || to == call.peer)) out.push_back(outgoing(to, own));
      if (theirs.count > 0 && (!to_root || rank_ == call.peer)) in.push_back({from, theirs.data, theirs.bytes()});
    }
    segment.results = context_->start(out, in, tag(call, 2 * number + 1), call.timeout);
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
  std::vector<ReductionSource> sources_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<GlooBackend>(options, std::move(store));
}

}  // namespace ddp
