// This store is a log in a file. Every user keeps the table that results from the log up to the offset that it has
// read. While it holds the file's lock, it reads the changes of other users and appends its own.
#include <ddp/error.h>
#include <ddp/store.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "store/limits.h"
#include "store/local/file_log.h"
#include "store/local/locked_file.h"
#include "store/local/table_store.h"
#include "wire/limits.h"

namespace ddp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using store::FileLock;
using store::LockedFile;
using store::TableChange;
using store::UserChange;

class FileStore : public store::TableStore {
 public:
  FileStore(const std::string& path, milliseconds timeout, int world_size)
      : TableStore(timeout), path_(path), world_size_(world_size) {
    while (!join()) {
    }
  }

  ~FileStore() override {
    try {
      leave();
    } catch (const Error&) {
      // This user then counts as crashed, and the file remains.
    }
  }

 protected:
  bool take_turn(const Condition& ready, milliseconds timeout, bool changes, const Step& step) override {
    return poll(timeout, [&] {
      const std::lock_guard lock(mutex_);
      if (changes && ready) {
        catch_up(FileLock::shared);
        if (!ready(table_)) return false;
      }
      const LockedFile::Guard guard(*file_, changes ? FileLock::exclusive : FileLock::shared, deadline());
      read_new();
      if (ready && !ready(table_)) return false;
      write(step(table_));
      return true;
    });
  }

  std::string place() const override { return " in the store file '" + path_ + "'"; }

 private:
  steady_clock::time_point deadline() const { return steady_clock::now() + timeout(); }

  // Repeats `turn` until it returns true. It must poll, because inotify does not report writes of other nodes.
  template <typename Turn>
  static bool poll(milliseconds timeout, Turn&& turn) {
    const auto until = steady_clock::now() + timeout;
    microseconds pause = limits::kFileFirstPause;
    while (!turn()) {
      const auto left = std::chrono::ceil<microseconds>(until - steady_clock::now());
      if (left.count() <= 0) return false;
      std::this_thread::sleep_for(std::min(pause, left));
      pause = std::min<microseconds>(pause * 2, limits::kFileWaitPause);
    }
    return true;
  }

  // Returns false if the last user removed the file after this process opened it and before it got the lock.
  bool join() {
    file_.emplace(path_);
    const LockedFile::Guard guard(*file_, FileLock::exclusive, deadline());
    if (!file_->is_in_place()) return false;
    read_new();
    append(encode(UserChange::joined));
    ++joined_;
    return true;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    const LockedFile::Guard guard(*file_, FileLock::exclusive, steady_clock::now() + limits::kFileGoodbye);
    read_new();
    append(encode(UserChange::left));
    ++left_;
    if (world_size_ > 0 && left_ >= world_size_ && left_ == joined_) file_->remove();
  }

  void catch_up(FileLock kind) {
    const LockedFile::Guard guard(*file_, kind, deadline());
    read_new();
  }

  // The caller must hold a lock.
  void read_new() {
    const std::uint64_t size = file_->size();
    if (size < end_) fail(ErrorKind::corrupt, "was truncated");
    if (!file_->is_in_place()) fail(ErrorKind::unavailable, "was removed");
    if (end_ == 0) {
      const std::string head = file_->read(0, store::kFileLogHead.size());
      if (!store::kFileLogHead.starts_with(head)) fail(ErrorKind::corrupt, "is not a store, or has another version");
      if (head.size() < store::kFileLogHead.size()) return;  // the file is new, or its creator was killed
      end_ = head.size();
    }
    std::string bytes;
    for (std::uint64_t position = end_; position < size; position = end_ + bytes.size()) {
      bytes += file_->read(position, std::min<std::uint64_t>(size - position, limits::kFileReadBytes));
      bytes.erase(0, apply_all(bytes));
    }
  }

  // Returns the number of bytes that were complete records.
  std::size_t apply_all(std::string_view bytes) {
    std::size_t done = 0;
    while (true) {
      const auto next = store::next_record(bytes.substr(done));
      if (std::holds_alternative<store::LogCorrupt>(next))
        fail(ErrorKind::corrupt, "is damaged at byte " + std::to_string(end_));
      const auto* entry = std::get_if<store::LogEntry>(&next);
      if (entry == nullptr) return done;
      if (const auto* change = std::get_if<TableChange>(&entry->record)) table_.apply(*change);
      if (const auto* user = std::get_if<UserChange>(&entry->record)) ++(*user == UserChange::joined ? joined_ : left_);
      done += entry->bytes;
      end_ += entry->bytes;
    }
  }

  // The caller must hold the exclusive lock and have read all records.
  void write(const Changes& changes) {
    std::string bytes;
    for (const TableChange& change : changes) {
      require(change.key.size(), limits::kStoreKeyBytes, "key", change.key);
      std::size_t size = change.value.size();
      if (const auto* value = table_.value(change.key); value && change.kind == TableChange::Kind::append) {
        size += value->size();
      }
      require(size, limits::kStoreValueBytes, "value of", change.key);
      bytes += encode(change);
    }
    append(bytes);
    for (const TableChange& change : changes) table_.apply(change);
  }

  void append(const std::string& bytes) {
    if (bytes.empty()) return;
    const std::string head(end_ == 0 ? store::kFileLogHead : "");
    file_->write_end(end_, head + bytes);
    end_ += head.size() + bytes.size();
  }
  using TableStore::append;

  static void require(std::size_t size, std::size_t limit, const char* what, const std::string& key) {
    if (size <= limit) return;
    throw Error(ErrorKind::invalid_argument, "the store does not accept the " + std::string(what) + " '" +
                                                 key.substr(0, 40) + "' of " + std::to_string(size) + " bytes (limit " +
                                                 std::to_string(limit) + ")");
  }

  [[noreturn]] void fail(ErrorKind kind, const std::string& why) const {
    throw Error(kind, "the store file '" + path_ + "' " + why + ". Name a file that does not exist yet.");
  }

  const std::string path_;
  const int world_size_;
  std::mutex mutex_;
  std::optional<LockedFile> file_;
  std::uint64_t end_ = 0;  // end of the records in table_; 0 before the head has been read
  store::LocalTable table_;
  int joined_ = 0;
  int left_ = 0;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, milliseconds timeout, int world_size) {
  return std::make_shared<FileStore>(path, timeout, world_size);
}

}  // namespace ddp
