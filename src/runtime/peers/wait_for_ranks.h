// Ranks use these functions to wait for keys that other ranks write into the store, before any collective is under way.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/progress/status_page.h"

namespace ddp::internal {

// Returns "NAME/0", "NAME/1" and so on: one key for each rank.
std::vector<std::string> keys_of_ranks(const std::string& name, int size);

// Returns when all keys exist. Meanwhile, `page` shows that a thread waits. `check_members` throws if a rank that is to
// write a key is known to be gone; it may be empty. Throws `timeout` after `patience`.
void wait_for_ranks(Store& store, std::span<const std::string> keys, std::chrono::milliseconds patience,
                    StatusPage page, const std::function<void()>& check_members = {});

}  // namespace ddp::internal
