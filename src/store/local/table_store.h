// TableStore implements the operations of a store on a LocalTable. Derived classes implement how changes reach the
// other users, and how a user waits for changes.
#pragma once

#include <ddp/store.h>

#include <functional>

#include "store/local/local_table.h"

namespace ddp::store {

class TableStore : public Store {
 public:
  explicit TableStore(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key) override { return multi_get(std::span(&key, 1)).front(); }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  bool delete_key(const std::string& key) override;
  std::chrono::milliseconds timeout() const override { return timeout_; }
  void append(const std::string& key, std::string_view value) override;
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  std::int64_t num_keys() override;
  std::vector<std::string> list_keys() override;
  void queue_push(const std::string& key, std::string_view value) override;
  std::string queue_pop(const std::string& key, std::chrono::milliseconds timeout) override;
  std::optional<std::string> try_queue_pop(const std::string& key) override;
  std::int64_t queue_len(const std::string& key) override;
  void barrier(const std::string& key, int world_size, std::chrono::milliseconds timeout) override;

 protected:
  using Condition = std::function<bool(const LocalTable&)>;
  using Reader = std::function<void(const LocalTable&)>;
  using Changes = std::vector<TableChange>;
  using Step = std::function<Changes(const LocalTable&)>;

  // Waits until `ready` holds for the table, and applies the changes that the step returns. No other user changes the
  // table in between. Returns false if `ready` does not hold in time. An empty `ready` is not waited for. `changes` is
  // false if the step only reads. Exceptions are passed on.
  virtual bool take_turn(const Condition& ready, std::chrono::milliseconds timeout, bool changes, const Step& step) = 0;

  // Returns text for messages: "" or " in the store file '/x'".
  virtual std::string place() const = 0;

 private:
  void read(const Reader& read) { read_when({}, {}, read); }
  bool read_when(const Condition& ready, std::chrono::milliseconds timeout, const Reader& read) {
    return take_turn(ready, timeout, false, [&](const LocalTable& table) {
      read(table);
      return Changes();
    });
  }
  void change(const Step& step) { take_turn({}, {}, true, step); }
  void wait_and_read(std::span<const std::string> keys, std::chrono::milliseconds timeout, const Reader& read);

  const std::chrono::milliseconds timeout_;
};

}  // namespace ddp::store
