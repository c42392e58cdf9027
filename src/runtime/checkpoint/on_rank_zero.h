// One outcome for all ranks of what one of them, or each of them, does to the disk.
#pragma once

#include <ddp/process_group.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ddp::internal {

// Collective. Runs `deed` on rank 0 and gives every rank its result, or throws on every rank what it threw.
std::string on_rank_zero(const ProcessGroup& group, const std::function<std::string()>& deed);

// Collective. Runs `deed` on every rank; if any fails, every rank throws the failure of the lowest one, with its
// number. Ranks wait for each other as long as `timeout`, or as long as the group's operations do.
void on_every_rank(const ProcessGroup& group, std::optional<std::chrono::milliseconds> timeout,
                   const std::function<void()>& deed);

// For results that are several texts.
std::string encode_texts(const std::map<std::string, std::string>& texts);
std::map<std::string, std::string> parse_texts(const std::string& bytes);

}  // namespace ddp::internal
