// These functions give all ranks one outcome of a disk operation that one rank, or each rank, carries out.
#pragma once

#include <ddp/process_group.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ddp::internal {

// Runs `action` on rank 0 and returns its result on every rank, or throws its error on every rank. All ranks call it.
std::string on_rank_zero(const ProcessGroup& group, const std::function<std::string()>& action);

// Runs `action` on every rank; all ranks call it. If it fails on any rank, every rank throws the failure of the lowest
// such rank, with its number. Ranks wait for each other as long as `timeout`, or as long as the group's operations do.
void on_every_rank(const ProcessGroup& group, std::optional<std::chrono::milliseconds> timeout,
                   const std::function<void()>& action);

// These functions encode and decode results that consist of several texts.
std::string encode_texts(const std::map<std::string, std::string>& texts);
std::map<std::string, std::string> parse_texts(const std::string& bytes);

}  // namespace ddp::internal
