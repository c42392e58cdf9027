#include <ddp/checkpoint_manager.h>
#include <ddp/error.h>
#include <ddp/progress.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/call/called_from.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/on_rank_zero.h"
#include "runtime/checkpoint/shard_exchange.h"
#include "runtime/checkpoint/state_keeper.h"
#include "runtime/checkpoint/step_directory.h"
#include "runtime/checkpoint/write_plan.h"
#include "runtime/group/agreement.h"
#include "runtime/limits.h"
#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWholeFile = "model.safetensors";

std::string part_name(std::size_t rank, int size) {
  const auto five = [](std::size_t number) {
    std::string digits = std::to_string(number);
    return digits.insert(0, 5 - std::min<std::size_t>(5, digits.size()), '0');
  };
  return "part-" + five(rank) + "-of-" + five(static_cast<std::size_t>(size)) + ".safetensors";
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Throws unless every file exists, is undamaged, and holds the data that the manifest lists.
void verify(const std::string& path, const Manifest& manifest) {
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const std::string file_path = path + "/" + manifest.files[i].name;
    if (file_bytes(file_path) != manifest.files[i].bytes) {
      throw Error(ErrorKind::corrupt,
                  "checkpoint " + file_path + " is damaged: its length differs from the length that was written");
    }
    const ReadCheckpoint file = open_part(path, manifest, i);
    for (const auto& [name, tensor] : manifest.tensors) {
      for (const ManifestPiece& piece : tensor.pieces) {
        if (piece.file == i) static_cast<void>(stored_piece(file, file_path, name, tensor.type, piece));
      }
    }
  }
}

}  // namespace

class CheckpointManager::Implementation {
 public:
  Implementation(std::string directory_, const ProcessGroup& group_, const CheckpointOptions& options_)
      : directory(std::move(directory_)),
        options(options_),
        group(group_.new_group(all_ranks(group_.size()), "checkpoints of " + directory)),
        keeper(StateKeeper::open(group_)) {
    if (options.keep_last < 0) {
      throw Error(ErrorKind::invalid_argument,
                  "CheckpointManager: keep_last must be 0 or more, not " + std::to_string(options.keep_last));
    }
    on_rank_zero(group, [&] {
      make_directory(directory);
      return std::string();
    });
  }
  ~Implementation() {
    if (writer.joinable()) writer.join();
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void save(std::int64_t step, const CheckpointState& state, CallSite site) {
    wait();
    if (step < 0)
      throw Error(ErrorKind::invalid_argument, "checkpoint: the step must be 0 or more, not " + std::to_string(step));
    if (const auto difference =
            first_disagreement(group, "step " + std::to_string(step) + "\n", "CheckpointManager::save")) {
      throw Error(ErrorKind::mismatch, "checkpoint: the ranks save different steps: " + *difference);
    }
    const bool is_full = options.layout == CheckpointOptions::Layout::full;
    Manifest manifest;
    manifest.step = step;
    manifest.save = on_rank_zero(group, [&] {
      if (!lock) lock = std::make_unique<DirectoryLock>(directory, lock_wait());
      return base::hex64(base::random64());
    });
    ExchangedShards exchanged = exchange_shards(group, state);
    manifest.values = std::move(exchanged.values);
    manifest.rank_values = std::move(exchanged.rank_values);
    manifest.tensors = plan_writing(exchanged.shards, !is_full);
    // This rank writes copies if the program continues meanwhile, or if the data came from other ranks.
    WrittenTensors written = is_full ? gather_whole(group, state, manifest.tensors, options.asynchronous)
                                     : own_parts(group, state, manifest.tensors, options.asynchronous);
    name_files(manifest, is_full);
    if (!options.asynchronous) return write(manifest, written);
    writer = std::thread([this, site, manifest = std::move(manifest), written = std::move(written)]() mutable {
      const CalledFrom here(site);
      try {
        write(manifest, written);
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }

  void wait() {
    if (writer.joinable()) writer.join();
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }

  std::optional<std::int64_t> latest() {
    wait();
    const auto found = parse_texts(on_rank_zero(group, [&] {
      std::map<std::string, std::string> result;
      for (const std::int64_t step : list_steps(directory)) {
        try {
          verify(step_path(step), read_manifest(step));
          result["step"] = std::to_string(step);
          break;
        } catch (const Error& error) {
          result["damaged"] += std::string(error.what()) + "\n";
        }
      }
      return encode_texts(result);
    }));
    damaged.clear();
    if (const auto lines = found.find("damaged"); lines != found.end()) {
      damaged = base::split(lines->second.substr(0, lines->second.size() - 1), '\n');
    }
    const auto step = found.find("step");
    if (step == found.end()) return std::nullopt;
    return std::stoll(step->second);
  }

  void load(std::int64_t step, CheckpointState& state) {
    wait();
    const Manifest manifest = parse_manifest(on_rank_zero(group, [&] { return encode_manifest(read_manifest(step)); }));
    on_every_rank(group, patience(), [&] { read_shards(group, step_path(step), manifest, state); });
    state.values = manifest.values;
    const auto rank = static_cast<std::size_t>(group.rank());
    state.rank_values = rank < manifest.rank_values.size() ? manifest.rank_values[rank] : decltype(state.rank_values)();
  }

  std::string step_path(std::int64_t step) const { return directory + "/" + step_name(step); }

  const std::string directory;
  std::vector<std::string> damaged;

 private:
  friend class CheckpointManager;
  // Names the files. Before, each piece names the rank that writes it. Afterwards, each piece names its file.
  void name_files(Manifest& manifest, bool is_full) {
    if (is_full) {
      manifest.files = {{kWholeFile, 0}};
      return;
    }
    std::set<std::size_t> writers;
    for (const auto& [name, tensor] : manifest.tensors) {
      for (const ManifestPiece& piece : tensor.pieces) writers.insert(piece.file);
    }
    for (const std::size_t rank : writers) manifest.files.push_back({part_name(rank, group.size()), 0});
    for (auto& [name, tensor] : manifest.tensors) {
      for (ManifestPiece& piece : tensor.pieces) {
        piece.file = static_cast<std::size_t>(std::distance(writers.begin(), writers.find(piece.file)));
      }
    }
  }

  std::string own_file(const Manifest& manifest) const {
    const std::string name = options.layout == CheckpointOptions::Layout::full
                                 ? (group.rank() == 0 ? kWholeFile : "")
                                 : part_name(static_cast<std::size_t>(group.rank()), group.size());
    const bool is_named = std::any_of(manifest.files.begin(), manifest.files.end(),
                                      [&](const ManifestFile& file) { return file.name == name; });
    return is_named ? name : "";
  }

  // All ranks know of a failure, so no rank writes any more. Rank 0 removes the staged step, so that a full disk gets
  // its space back.
  void write(Manifest& manifest, const WrittenTensors& written) {
    try {
      write_step(manifest, written);
    } catch (...) {
      if (group.rank() == 0) discard_staged(directory, manifest.step);
      throw;
    }
  }

  std::optional<std::chrono::milliseconds> patience() const {
    if (options.timeout) return options.timeout;
    const char* watched = std::getenv(wire::env::kWatched);  // NOLINT(concurrency-mt-unsafe)
    if (watched != nullptr && std::string_view(watched) == "1") return std::nullopt;
    return std::chrono::minutes(30);
  }

  std::chrono::milliseconds lock_wait() const {
    const std::chrono::milliseconds most = limits::kDirectoryLockWait;
    return std::min(most, options.timeout.value_or(most));
  }

  // All ranks write; then rank 0 gives the step its final name.
  void write_step(Manifest& manifest, const WrittenTensors& written) {
    const std::string staging = directory + "/" + staging_name(manifest.step);
    on_every_rank(group, patience(), [&] {
      const std::string name = own_file(manifest);
      if (name.empty()) return;
      make_directory(staging);
      write_checkpoint_file(staging + "/" + name, written.tensors, part_metadata(manifest, name));
    });
    on_every_rank(group, patience(), [&] {
      if (group.rank() != 0) return;
      make_directory(staging);  // missing if no rank had anything to write
      std::set<std::string> names = {kManifest};
      for (ManifestFile& file : manifest.files) {
        file.bytes = file_bytes(staging + "/" + file.name);
        names.insert(file.name);
      }
      const std::string text = encode_manifest(manifest);
      if (text.size() > limits::kCheckpointHeaderBytes) {
        throw Error(ErrorKind::invalid_argument, "checkpoint " + staging + ": its manifest has " +
                                                     std::to_string(text.size()) + " bytes (limit " +
                                                     std::to_string(limits::kCheckpointHeaderBytes) + ")");
      }
      write_text_file(staging + "/" + kManifest, text);
      commit_step(directory, manifest.step, names);
      prune(manifest.step);
    });
  }

  // Removes older steps beyond those to be kept. Newer steps stay, because the user may have gone back from them.
  void prune(std::int64_t step) {
    remove_leftovers(directory);
    if (options.keep_last == 0) return;
    std::int64_t kept = 0;
    for (const std::int64_t other : list_steps(directory)) {
      if (other <= step && ++kept > options.keep_last) remove_step(directory, other);
    }
  }

  Manifest read_manifest(std::int64_t step) const {
    const std::string path = step_path(step) + "/" + kManifest;
    try {
      Manifest manifest = parse_manifest(read_text_file(path, limits::kCheckpointHeaderBytes));
      if (manifest.step != step) throw Error(ErrorKind::corrupt, "it belongs to another step");
      return manifest;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      throw Error(ErrorKind::corrupt, "checkpoint " + path + " is damaged: " + error.what());
    }
  }

  const CheckpointOptions options;
  ProcessGroup group;  // separate, because the writer uses it while the program uses its own group
  const std::unique_ptr<StateKeeper> keeper;  // null if the launcher keeps no states
  std::unique_ptr<DirectoryLock> lock;        // rank 0 has it from its first save on
  std::thread writer;
  std::exception_ptr failure;  // thrown in the writer thread
};

CheckpointManager::CheckpointManager(std::string directory, const ProcessGroup& group, CheckpointOptions options,
                                     CallSite site) {
  const CalledFrom here(site);
  implementation_ = std::make_unique<Implementation>(std::move(directory), group, options);
}

CheckpointManager::~CheckpointManager() = default;

void CheckpointManager::save(std::int64_t step, const CheckpointState& state, CallSite site) {
  const CalledFrom here(site);
  const PhaseScope phase(Phase::checkpoint, implementation_->directory, site);
  implementation_->save(step, state, site);
}

void CheckpointManager::wait() {
  implementation_->wait();
}

std::optional<std::int64_t> CheckpointManager::latest(CallSite site) {
  const CalledFrom here(site);
  const PhaseScope phase(Phase::checkpoint, implementation_->directory, site);
  return implementation_->latest();
}

const std::vector<std::string>& CheckpointManager::damaged() const {
  return implementation_->damaged;
}

void CheckpointManager::load(std::int64_t step, CheckpointState& state, CallSite site) {
  const CalledFrom here(site);
  const PhaseScope phase(Phase::checkpoint, implementation_->directory, site);
  implementation_->load(step, state);
}

std::optional<std::int64_t> CheckpointManager::load_latest(CheckpointState& state, CallSite site) {
  const CalledFrom here(site);
  const std::optional<std::int64_t> step = latest();
  const auto& keeper = implementation_->keeper;
  const std::optional<std::int64_t> kept = keeper ? keeper->step() : std::nullopt;
  if (kept && kept > step) {
    keeper->load(state);
    return kept;
  }
  if (step) load(*step, state);
  return step;
}

void CheckpointManager::finish_step(std::int64_t step, const CheckpointState& state) {
  if (implementation_->keeper) implementation_->keeper->finish_step(step, state);
}

void CheckpointManager::announce_step(std::int64_t step, const CheckpointState& state) {
  if (implementation_->keeper) implementation_->keeper->announce_step(step, state);
}

std::string CheckpointManager::step_directory(std::int64_t step) const {
  return implementation_->step_path(step);
}

}  // namespace ddp
