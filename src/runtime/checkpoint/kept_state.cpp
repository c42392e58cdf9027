#include "runtime/checkpoint/kept_state.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "base/unique_fd.h"
#include "runtime/checkpoint/tensor_copier.h"
#include "runtime/checkpoint/write_plan.h"
#include "runtime/limits.h"
#include "wire/image_files.h"
#include "wire/worker_env.h"

namespace ddp::internal {

using Json = nlohmann::json;
using wire::StateEntry;
using wire::StateKind;

namespace {

class KeptState {
 public:
  KeptState(const ProcessGroup& group_, const StateInstructions& instructions_, const wire::StateFile& file_)
      : group(group_), instructions(instructions_), file(file_) {}

  // An entry to begin with, of the memory or of a file of an image.
  struct Kept {
    StateEntry entry{};
    wire::EntryData data;
    base::UniqueFd image_file;  // none if it is in memory
  };

  std::optional<Kept> in_memory(const StatePlace& place) const {
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
    // This rank is new, or was lost before it had finished the step.
    const bool needs_other = !is_same_world || own.entry.kind == StateKind::early;
    for (int rank = 0; needs_other && !result.shared; ++rank) {
      Kept other = in_image(wire::own_file_of(rank));
      if (other.entry.kind != StateKind::early) result.shared = std::move(other);
    }
    if (is_same_world) result.own = std::move(own);
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

 private:
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
      is_written = is_written && file.write(area, place, at, std::as_bytes(std::span(bytes)));
    }
    if (!is_written || !file.set_entry(area, place, sent)) unreadable();
  }

  [[noreturn]] static void unreadable() {
    throw Error(ErrorKind::unavailable, "the memory with the kept state cannot be read or written");
  }

  const ProcessGroup& group;
  const StateInstructions& instructions;
  const wire::StateFile& file;
};

}  // namespace

std::optional<StateInstructions> StateInstructions::read() {
  const char* text = std::getenv(wire::env::kStateMemory);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("may_restart")) return std::nullopt;
  StateInstructions result;
  const auto number = [&](const char* name) { return json.at(name).get<int>(); };
  result.descriptor = number("fd");
  result.area = number("area");
  result.areas = number("areas");
  result.rank = number("rank");
  result.world = number("world");
  result.attempt = number("attempt");
  result.may_restart = number("may_restart") != 0;
  if (json.contains("image_cost")) result.image_share = 1e-6 * number("image_cost");
  const auto place = [&](const char* name) {
    return json.contains(name) ? StatePlace{json[name][0].get<int>(), json[name][1].get<int>()} : StatePlace{};
  };
  result.own = place("own");
  result.shared = place("shared");
  result.whole = place("whole");
  if (json.contains("step")) result.step = json["step"].get<std::int64_t>();
  if (json.contains("image")) json["image"].get_to(result.image);
  if (json.contains("transfers")) json["transfers"].get_to(result.transfers);
  return result;
}

void load_kept_state(const ProcessGroup& group, const StateInstructions& instructions, const wire::StateFile& file,
                     CheckpointState& state) {
  const KeptState kept(group, instructions, file);
  kept.transfer();
  const KeptState::Sources from = kept.sources();
  kept.load_whole(state, *from.whole);
  state.values.clear();
  state.rank_values.clear();
  const auto& of_all = from.shared ? from.shared : from.own;
  if (of_all) kept.read_texts(*of_all).at("values").get_to(state.values);
  if (from.own) kept.read_texts(*from.own).at("rank_values").get_to(state.rank_values);
  file.set_restored(instructions.area, instructions.attempt, *instructions.step);
}

}  // namespace ddp::internal
