#include "runtime/checkpoint/state_keeper.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "runtime/checkpoint/image_interval.h"
#include "runtime/checkpoint/tensor_copier.h"
#include "runtime/checkpoint/write_plan.h"
#include "runtime/limits.h"
#include "runtime/progress/state_gate.h"
#include "wire/image_files.h"
#include "wire/state_file.h"
#include "wire/worker_env.h"

namespace ddp::internal {

using Json = nlohmann::json;
using wire::StateEntry;
using wire::StateKind;

namespace {

std::span<const std::byte> bytes_of(std::span<const std::uint8_t> bytes) {
  return std::as_bytes(bytes);
}

Json describe(const TensorShard& shard) {
  return {shard.name, static_cast<int>(shard.data.type), shard.shape, shard.first, shard.data.count};
}

}  // namespace

// The thread and the process's gate share it with the keeper, because the thread waits until the process ends.
class StateKeeper::Core {
 public:
  struct Place {
    int area = -1;
    int place = -1;
  };

  // What DDP_STATE_MEMORY says.
  struct Instructions {
    int descriptor = -1;
    int area = 0;
    int areas = 0;
    int rank = 0;
    int world = 0;
    int attempt = 0;
    bool may_restart = false;
    double image_share = 0;            // of the time that images may take; 0 if there are none
    std::optional<std::int64_t> step;  // of the state to begin with
    Place own;
    Place shared;
    Place whole;
    std::vector<std::array<int, 6>> transfers;
    std::string image;  // the directory that has the state instead; empty if it is in memory
  };

  static std::optional<Instructions> read_instructions() {
    const char* text = std::getenv(wire::env::kStateMemory);  // NOLINT(concurrency-mt-unsafe)
    if (text == nullptr) return std::nullopt;
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("may_restart")) return std::nullopt;
    Instructions result;
    const auto number = [&](const char* name) { return json.at(name).get<int>(); };
    result.descriptor = number("fd");
    result.area = number("area");
    result.areas = number("areas");
    result.rank = number("rank");
    result.world = number("world");
    result.attempt = number("attempt");
    result.may_restart = number("may_restart") != 0;
    if (result.may_restart && json.contains("image_cost")) result.image_share = 1e-6 * number("image_cost");
    const auto place = [&](const char* name) {
      return json.contains(name) ? Place{json[name][0].get<int>(), json[name][1].get<int>()} : Place{};
    };
    result.own = place("own");
    result.shared = place("shared");
    result.whole = place("whole");
    if (json.contains("step")) result.step = json["step"].get<std::int64_t>();
    if (json.contains("image")) json["image"].get_to(result.image);
    if (json.contains("transfers")) json["transfers"].get_to(result.transfers);
    return result;
  }

  Core(const ProcessGroup& group_, Instructions instructions_)
      : group(group_),
        instructions(std::move(instructions_)),
        file(instructions.descriptor),
        images(instructions.image_share) {}

  // Ranks that hold the same tensors, or the same parts of them, have the same key.
  void set_key(const CheckpointState& state) {
    if (key != 0) return;
    Json shards = Json::array();
    for (const TensorShard& shard : state.tensors) shards.push_back(describe(shard));
    base::Fnv1a64 hash;
    hash.update(shards.dump());
    const std::lock_guard lock(mutex);
    key = hash.value() | 1U;
  }

  // Waits until the launcher asks for the state.
  void answer() {
    file.wait_for_request();
    save();
    file.set_attempt(instructions.area, &wire::StateHead::answered, instructions.attempt);
  }

  void note(StateKind kind, std::int64_t at_step, const Json& texts) {
    const std::vector<std::uint8_t> data = Json::to_cbor(texts);
    const int at = static_cast<int>((2 * at_step + (kind == StateKind::early ? 0 : 1)) % wire::kStateRecent);
    note(at, at_step, kind, data);
    const bool is_of_image = kind != StateKind::early && images.is_due(at_step - first_step);
    if (is_of_image) {
      note(file.oldest(instructions.area, wire::kStateRecent, wire::kStatePinned), at_step, kind, data);
    }
  }

  // Copies the whole state if that is due after this step, and agrees with the other ranks on the interval.
  void make_image(std::int64_t at_step) {
    const std::int64_t steps = at_step - first_step;
    const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    if (steps == 0) began = now();
    if (images.is_due(steps) && instructions.may_restart) {
      const double begin = now();
      StateGate::of_process().try_copy(
          limits::kStatePatience, [] { return false; }, [this] { try_claim(); });
      copy_seconds = has_room ? now() - begin : 0;
    }
    if (!images.is_reviewed(steps)) return;
    const double disk_seconds = 1e-3 * file.head(instructions.area).image_time;
    std::vector<double> longest = {copy_seconds, (now() - began) / static_cast<double>(steps), disk_seconds};
    group.all_reduce(longest, ReduceOp::max, {.name = "image interval"}).wait();
    images.agree(longest[0], longest[1], longest[2]);
  }

  // Copies the whole state, unless another rank of this node does.
  void save() {
    StateGate::of_process().try_copy(
        limits::kStatePatience, [this] { return is_kept(); }, [this] { claim(); });
  }

  // An entry to begin with, of the memory or of a file of an image.
  struct Kept {
    StateEntry entry{};
    wire::EntryData data;
    base::UniqueFd image_file;  // none if it is in memory
  };

  std::optional<Kept> in_memory(const Place& place) const {
    if (place.area < 0) return std::nullopt;
    const auto entry = file.entry(place.area, place.place);
    if (!entry) unreadable();
    return Kept{*entry, file.data(place.area, place.place), {}};
  }

  Kept in_image(const std::string& name) const {
    const std::string path = instructions.image + "/" + name;
    base::UniqueFd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto entry = descriptor ? wire::image_entry(descriptor.get()) : std::nullopt;
    if (!entry) {
      throw Error(ErrorKind::unavailable,
                  "the state to go on from, " + path +
                      (descriptor ? ", is damaged. Remove its directory to go on from the one before."
                                  : ", cannot be opened. All nodes need the same --image-dir."));
    }
    const wire::EntryData data{descriptor.get(), wire::kImageDataAt};
    return {*entry, data, std::move(descriptor)};
  }

  // See RankRestore.
  struct Sources {
    std::optional<Kept> own;
    std::optional<Kept> shared;
    std::optional<Kept> whole;
  };
  Sources sources() const {
    if (instructions.image.empty()) {
      return {in_memory(instructions.own), in_memory(instructions.shared), in_memory(instructions.whole)};
    }
    Kept own = in_image(wire::own_file_of(0));
    const bool is_same_world = own.entry.world == instructions.world;
    if (is_same_world) own = in_image(wire::own_file_of(instructions.rank));
    Sources result{std::nullopt, std::nullopt, in_image(wire::whole_file_of(own.entry.key))};
    if (!is_same_world) return result;
    // This rank was lost before it had finished the step.
    for (int rank = 0; own.entry.kind == StateKind::early && !result.shared; ++rank) {
      Kept other = in_image(wire::own_file_of(rank));
      if (other.entry.kind == StateKind::final) result.shared = std::move(other);
    }
    result.own = std::move(own);
    return result;
  }

  Json read_texts(const Kept& kept) const {
    std::vector<std::uint8_t> data(std::min<std::uint64_t>(kept.entry.bytes, limits::kOwnStateBytes));
    if (!kept.data.read(0, std::as_writable_bytes(std::span(data)))) unreadable();
    return Json::from_cbor(data, /*strict=*/true, /*allow_exceptions=*/false);
  }

  void transfer() const {
    for (const auto& [from, to, area, place, to_area, to_place] : instructions.transfers) {
      if (instructions.rank == from) send(to, area, place);
      if (instructions.rank == to) receive(from, to_area, to_place);
    }
    if (!instructions.transfers.empty()) group.barrier({.name = "kept states"}).wait();
  }

  // Fills the tensors from the whole state.
  void load_whole(const CheckpointState& state, const Kept& kept) const {
    std::uint64_t size = 0;
    if (!kept.data.read(0, std::as_writable_bytes(std::span(&size, 1))) || size > limits::kOwnStateBytes) unreadable();
    std::vector<std::uint8_t> head(size);
    if (!kept.data.read(sizeof size, std::as_writable_bytes(std::span(head)))) unreadable();
    const Json pieces = Json::from_cbor(head, /*strict=*/true, /*allow_exceptions=*/false);
    const TensorCopier copier(group, state.stream);
    for (const TensorShard& shard : state.tensors) {
      std::uint64_t at = sizeof size + size;
      std::size_t filled = 0;
      for (const Json& piece : pieces) {
        const auto count = piece[4].get<std::size_t>();
        const std::size_t unit = size_of(static_cast<DataType>(piece[1].get<int>()));
        if (piece[0] == shard.name) {
          if (piece[1] != static_cast<int>(shard.data.type) || piece[2] != Json(shard.shape)) {
            throw Error(ErrorKind::mismatch, "the kept state of step " + std::to_string(*instructions.step) + " has '" +
                                                 shard.name + "' with another type or shape");
          }
          const Overlap overlap = overlap_of(shard.first, shard.data.count, {0, piece[3].get<std::size_t>(), count});
          read_into(shard.data.slice(overlap.first_in_shard, overlap.count), kept.data,
                    at + overlap.first_in_piece * unit, copier);
          filled += overlap.count;
        }
        at += count * unit;
      }
      if (filled != shard.data.count) {
        throw Error(ErrorKind::mismatch, "the kept state of step " + std::to_string(*instructions.step) +
                                             " has not all of '" + shard.name + "'");
      }
    }
  }

  const ProcessGroup group;
  const Instructions instructions;
  const wire::StateFile file;

  std::mutex mutex;  // guards the following, which the thread reads
  std::vector<TensorShard> tensors;
  Stream stream;
  std::atomic<bool> has_room = true;  // for a copy
  bool has_told = false;              // that there is none
  std::int64_t step = 0;              // 0 if the state is that of no step that may be copied
  std::uint64_t key = 0;

  bool is_first = true;         // finish_step() was not called yet
  ImageInterval images;         // the following are of the program's thread, too
  std::int64_t first_step = 0;  // the first one that was finished in this attempt
  double began = 0;             // when that was, in seconds
  double copy_seconds = 0;      // how long the last copy took
  Json announced = nullptr;     // {step, rank values}, of the program's thread

 private:
  static constexpr int kFirstWhole = wire::kStateRecent + wire::kStatePinned;
  static_assert(wire::kStateWhole == 2);

  void note(int at, std::int64_t at_step, StateKind kind, const std::vector<std::uint8_t>& data) const {
    const bool is_written =
        file.clear_entry(instructions.area, at) && file.write(instructions.area, at, 0, bytes_of(data));
    if (is_written) file.set_entry(instructions.area, at, entry(at_step, data.size(), kind));
  }

  StateEntry entry(std::int64_t at, std::uint64_t bytes, StateKind kind) const {
    return {at, bytes, key, kind, instructions.attempt, instructions.rank, instructions.world, 0, 0};
  }

  // Returns the whole states with this key, the oldest first.
  std::vector<wire::StateFile::Found> whole_states() const {
    auto found = file.entries(instructions.areas, kFirstWhole, wire::kStateWhole);
    std::erase_if(found, [this](const auto& one) { return one.entry.key != key; });
    return found;
  }

  bool is_kept() {
    const std::lock_guard lock(mutex);
    if (step == 0) return true;
    return std::ranges::any_of(whole_states(), [this](const auto& one) {
      return one.entry.attempt == instructions.attempt && one.entry.step >= step;
    });
  }

  void claim() {
    const auto until = std::chrono::steady_clock::now() + limits::kStatePatience;
    while (!is_kept() && std::chrono::steady_clock::now() < until) {
      if (try_claim()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Copies the state unless it is kept. Returns false if another rank does.
  bool try_claim() {
    const std::uint64_t claim = wire::claim_of_key(key);
    if (!file.try_claim(claim)) return false;
    if (!is_kept()) copy();
    file.give_up_claim(claim);
    return true;
  }

  void copy() {
    const std::lock_guard lock(mutex);
    const auto known = whole_states();
    for (const Place& place : places_for_copy(known)) {
      const std::uint64_t claim = wire::claim_of_place(place.area, place.place);
      if (!file.try_claim(claim)) continue;
      copy_to(place, known);
      return file.give_up_claim(claim);
    }
  }

  // Two places are enough for the whole states of a key, in whichever areas they are.
  std::vector<Place> places_for_copy(std::span<const wire::StateFile::Found> known) const {
    std::vector<Place> places;
    if (known.size() >= wire::kStateWhole) {
      for (const auto& one : known.first(known.size() - 1)) places.push_back({one.area, one.place});
      return places;
    }
    const int oldest = file.oldest(instructions.area, kFirstWhole, wire::kStateWhole);
    for (const int place : {oldest, 2 * kFirstWhole + 1 - oldest}) {
      const bool is_known = std::ranges::any_of(
          known, [&](const auto& one) { return one.area == instructions.area && one.place == place; });
      if (!is_known) places.push_back({instructions.area, place});
    }
    return places;
  }

  void copy_to(const Place& to, std::span<const wire::StateFile::Found> known) {
    Json head = Json::array();
    for (const TensorShard& shard : tensors) head.push_back(describe(shard));
    const std::vector<std::uint8_t> text = Json::to_cbor(head);
    const std::uint64_t size = text.size();
    // The memory of both places is needed, sooner or later.
    std::uint64_t needed = 0;
    std::uint64_t allocated = 0;
    for (const TensorShard& shard : tensors) needed += wire::kStateWhole * shard.data.bytes();
    for (const auto& one : known) allocated += one.entry.bytes;
    has_room = needed <= file.head(instructions.area).room + allocated;
    if (!has_room) {
      if (std::exchange(has_told, true)) return;
      std::fprintf(stderr, "ddp: the state of %llu bytes is not kept in memory, because the node has too little\n",
                   static_cast<unsigned long long>(needed / wire::kStateWhole));
      return;
    }
    if (!file.clear_entry(to.area, to.place)) return;
    std::uint64_t at = 0;
    bool is_written = true;
    const auto put = [&](std::span<const std::byte> bytes) {
      is_written = is_written && file.write(to.area, to.place, at, bytes);
      at += bytes.size();
    };
    put(std::as_bytes(std::span(&size, 1)));
    put(bytes_of(text));
    const TensorCopier copier(group, stream);
    for (const TensorShard& shard : tensors) {
      std::vector<std::unique_ptr<std::byte[]>> memory;
      const Buffer data = copier.on_host(shard.data, /*copies=*/false, memory);
      put({static_cast<const std::byte*>(data.data), data.bytes()});
    }
    if (is_written) file.set_entry(to.area, to.place, entry(step, at, StateKind::whole));
  }

  void read_into(const Buffer& to, const wire::EntryData& from, std::uint64_t at, const TensorCopier& copier) const {
    if (to.count == 0) return;
    std::vector<std::unique_ptr<std::byte[]>> memory;
    const bool is_here = to.device == DeviceType::cpu;
    const Buffer host = is_here ? to : TensorCopier::allocate(to, memory);
    if (!from.read(at, {static_cast<std::byte*>(host.data), host.bytes()})) unreadable();
    if (!is_here) copier.copy(to, host);
  }

  void send(int to, int area, int place) const {
    StateEntry found = file.entry(area, place).value_or(StateEntry{});
    std::vector<std::uint8_t> bytes(sizeof found);
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&found), sizeof found, bytes.begin());
    group.send(bytes, to).wait();
    for (std::uint64_t at = 0; at < found.bytes; at += limits::kStateChunk) {
      bytes.resize(std::min<std::uint64_t>(limits::kStateChunk, found.bytes - at));
      if (!file.read(area, place, at, std::as_writable_bytes(std::span(bytes)))) unreadable();
      group.send(bytes, to).wait();
    }
  }

  void receive(int from, int area, int place) const {
    StateEntry sent{};
    std::vector<std::uint8_t> bytes(sizeof sent);
    group.recv(bytes, from).wait();
    std::copy_n(bytes.begin(), sizeof sent, reinterpret_cast<std::uint8_t*>(&sent));
    bool is_written = file.clear_entry(area, place);
    for (std::uint64_t at = 0; at < sent.bytes; at += limits::kStateChunk) {
      bytes.resize(std::min<std::uint64_t>(limits::kStateChunk, sent.bytes - at));
      group.recv(bytes, from).wait();
      is_written = is_written && file.write(area, place, at, bytes_of(bytes));
    }
    if (!is_written || !file.set_entry(area, place, sent)) unreadable();
  }

  [[noreturn]] static void unreadable() {
    throw Error(ErrorKind::unavailable, "the memory with the kept state cannot be read or written");
  }
};

std::unique_ptr<StateKeeper> StateKeeper::open(const ProcessGroup& group) {
  auto instructions = Core::read_instructions();
  if (!instructions) return nullptr;
  if (group.size() != instructions->world) return nullptr;
  struct stat status {};
  const auto size = static_cast<std::uint64_t>(instructions->areas) * wire::kStateAreaBytes;
  const bool is_there =
      ::fstat(instructions->descriptor, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == size;
  if (!is_there && instructions->step) {
    throw Error(ErrorKind::unavailable,
                "the other ranks go on from a kept state, which this one cannot read: descriptor " +
                    std::to_string(instructions->descriptor) + " is closed");
  }
  if (!is_there) {
    instructions->may_restart = false;
    if (instructions->image_share == 0) return nullptr;  // else it agrees with the other ranks on the interval
    instructions->descriptor = -1;
  }
  const auto core = std::make_shared<Core>(group, std::move(*instructions));
  if (core->instructions.may_restart) StateGate::of_process().set_keeper([core] { core->save(); });
  return std::unique_ptr<StateKeeper>(new StateKeeper(core));
}

StateKeeper::~StateKeeper() {
  StateGate::of_process().set_keeper(nullptr);
  const std::lock_guard lock(core_->mutex);  // the tensors belong to the program, and are copied no longer
  core_->step = 0;
  core_->tensors.clear();
}

std::optional<std::int64_t> StateKeeper::step() const {
  return core_->instructions.step;
}

void StateKeeper::load(CheckpointState& state) {
  core_->transfer();
  const Core::Sources from = core_->sources();
  core_->load_whole(state, *from.whole);
  state.values.clear();
  state.rank_values.clear();
  if (from.own) {
    const Json own = core_->read_texts(*from.own);
    const Json shared = from.shared ? core_->read_texts(*from.shared) : own;
    shared.at("values").get_to(state.values);
    own.at("rank_values").get_to(state.rank_values);
  }
  core_->file.set_restored(core_->instructions.area, core_->instructions.attempt, *core_->instructions.step);
}

void StateKeeper::announce_step(std::int64_t step, const CheckpointState& state) {
  core_->set_key(state);
  core_->announced = {step, state.rank_values};
  core_->note(StateKind::early, step, {{"rank_values", state.rank_values}});
}

void StateKeeper::finish_step(std::int64_t step, const CheckpointState& state) {
  Core& core = *core_;
  StateGate& gate = StateGate::of_process();
  core.set_key(state);
  if (core.is_first) core.first_step = step;
  const bool is_on_gpu = std::ranges::any_of(
      state.tensors, [](const TensorShard& shard) { return shard.data.device == DeviceType::cuda; });
  {
    const std::lock_guard lock(core.mutex);
    core.tensors = state.tensors;
    core.stream = state.stream;
    // Unless the tensors change between begin_change() and end_change(), they may change while they are copied.
    core.step = gate.is_changing() && !is_on_gpu ? step : 0;
  }
  const bool is_same = state.rank_values.empty() || core.announced == Json{step, state.rank_values};
  core.note(is_same ? StateKind::final : StateKind::final_moved, step,
            {{"values", state.values}, {"rank_values", state.rank_values}});
  // A rank that has nothing of its own is ready for the next step.
  if (state.rank_values.empty()) core.note(StateKind::early, step + 1, {{"rank_values", state.rank_values}});
  gate.end_change();
  core.make_image(step);
  if (!core.instructions.may_restart || !std::exchange(core.is_first, false)) return;
  gate.set_keeper([core = core_] { core->save(); });  // the program may have made another manager since
  std::thread([core = core_] { core->answer(); }).detach();
  core.file.set_attempt(core.instructions.area, &wire::StateHead::keeps, core.instructions.attempt);
}

}  // namespace ddp::internal
