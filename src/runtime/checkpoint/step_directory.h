// The directories of a training's checkpoints: one a step, that is whole or not there. One rank.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// "step-000000001200".
std::string step_name(std::int64_t step);
// The step of such a name; nothing for another.
std::optional<std::int64_t> parse_step_name(std::string_view name);
// Where a step is written: ".writing-step-000000001200".
std::string staging_name(std::int64_t step);

// These throw unavailable, with the system's reason.

// Makes a directory unless it is there.
void make_directory(const std::string& path);
// Descending.
std::vector<std::int64_t> list_steps(const std::string& directory);
std::uint64_t file_bytes(const std::string& path);
// Writes and flushes a small file.
void write_text_file(const std::string& path, std::string_view text);
std::string read_text_file(const std::string& path);

// Removes from the staged step what is not in `names` (an earlier run may have left it), flushes it, and gives it its
// final name; a step that has it is replaced in one go.
void commit_step(const std::string& directory, std::int64_t step, const std::set<std::string>& names);

// Removes what a failed save has left, as far as that is possible. Does not throw.
void discard_staged(const std::string& directory, std::int64_t step) noexcept;

// Removes a step; at no moment is half of it there under its name. Removes also what interrupted runs have left of
// steps that were being written or removed.
void remove_step(const std::string& directory, std::int64_t step);
void remove_leftovers(const std::string& directory);

}  // namespace ddp::internal
