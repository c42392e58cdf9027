#include <ddp/data_ranges.h>
#include <ddp/error.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/random_seed.h"
#include "support/temporary_directory.h"

using namespace ddp::test;
using ddp::byte_range;
using ddp::ByteRange;
using ddp::ErrorKind;
using ddp::file_pieces;
using ddp::FilePiece;
using ddp::FileSize;
using ddp::line_range;
using ddp::whole_files;

namespace {

class TextFiles {
 public:
  std::string with(const std::string& text) {
    std::string path = path_of("text");
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string path_of(const std::string& name) const { return directory_.path() + "/" + name; }

 private:
  TemporaryDirectory directory_;
};

// Returns the lines of a text, each with its end.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

// Applies the rule to each line.
ByteRange lines_that_begin_in(const std::string& text, ByteRange share) {
  std::uint64_t at = 0;
  ByteRange range;
  bool any = false;
  for (const std::string& line : lines_of(text)) {
    if (at >= share.first && at < share.end) {
      if (!any) range.first = at;
      any = true;
      range.end = at + line.size();
    }
    at += line.size();
  }
  return range;
}

void check_lines(const std::string& text, int size) {
  TextFiles files;
  const std::string path = files.with(text);
  std::uint64_t end = 0;
  for (int rank = 0; rank < size; ++rank) {
    INFO("rank " << rank << " of " << size << ", " << text.size() << " bytes");
    const ByteRange range = line_range(path, rank, size);
    const ByteRange expected = lines_that_begin_in(text, byte_range(text.size(), rank, size));
    REQUIRE(range.first == end);
    REQUIRE(range.bytes() == expected.bytes());
    if (range.bytes() > 0) REQUIRE(range == expected);
    end = range.end;
  }
  REQUIRE(end == text.size());
}

}  // namespace

TEST_CASE("bytes are divided in rank order into parts that differ by at most one") {
  CHECK(byte_range(10, 0, 3) == ByteRange{0, 4});
  CHECK(byte_range(10, 1, 3) == ByteRange{4, 7});
  CHECK(byte_range(10, 2, 3) == ByteRange{7, 10});
  for (std::uint64_t records = 0; records <= 20; ++records) {
    for (int size = 1; size <= 8; ++size) {
      for (const std::uint64_t record_bytes : {1, 12}) {
        std::uint64_t end = 0;
        for (int rank = 0; rank < size; ++rank) {
          const ByteRange range = byte_range(records * record_bytes, rank, size, record_bytes);
          REQUIRE(range.first == end);
          REQUIRE(range.bytes() % record_bytes == 0);
          REQUIRE(range.bytes() / record_bytes >= records / static_cast<std::uint64_t>(size));
          REQUIRE(range.bytes() / record_bytes <= records / static_cast<std::uint64_t>(size) + 1);
          end = range.end;
        }
        REQUIRE(end == records * record_bytes);
      }
    }
  }
}

TEST_CASE("the largest possible number of bytes is divided") {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  CHECK(byte_range(kMost, 0, 1) == ByteRange{0, kMost});
  CHECK(byte_range(kMost, 999, 1000).end == kMost);
  CHECK(byte_range(kMost, 0, 1, kMost) == ByteRange{0, kMost});
}

TEST_CASE("an incomplete record is rejected") {
  expect_error(ErrorKind::invalid_argument, {"byte_range", "25 bytes", "record size 12", "; 1 left over"},
               [] { byte_range(25, 0, 2, 12); });
  expect_error(ErrorKind::invalid_argument, {"1 byte or more"}, [] { byte_range(25, 0, 2, 0); });
  const std::vector<FileSize> files = {{"a", 24}, {"b", 30}};
  expect_error(ErrorKind::invalid_argument, {"file_pieces: b: 30 bytes", "record size 12"},
               [&] { file_pieces(files, 0, 2, 12); });
}

TEST_CASE("a rank that does not exist has no range") {
  const std::vector<FileSize> files = {{"a", 24}};
  for (const auto& who : {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -1}}) {
    const int rank = who.first;
    const int size = who.second;
    const std::vector<std::string> words = {"rank " + std::to_string(rank), "world of " + std::to_string(size)};
    expect_error(ErrorKind::invalid_argument, words, [&] { byte_range(10, rank, size); });
    expect_error(ErrorKind::invalid_argument, words, [&] { line_range("/dev/null", rank, size); });
    expect_error(ErrorKind::invalid_argument, words, [&] { whole_files(files, rank, size); });
    expect_error(ErrorKind::invalid_argument, words, [&] { file_pieces(files, rank, size); });
  }
}

TEST_CASE("a line belongs to the rank in whose share it begins") {
  TextFiles files;
  const std::string path = files.with("one\ntwo\nthree\nfour\n");  // the shares have 7, 6 and 6 bytes
  CHECK(line_range(path, 0, 3) == ByteRange{0, 8});
  CHECK(line_range(path, 1, 3) == ByteRange{8, 14});
  CHECK(line_range(path, 2, 3) == ByteRange{14, 19});
}

TEST_CASE("each line of various texts belongs to exactly one rank") {
  for (const char* text : {"", "\n", "a", "a\n", "\n\n\n\n\n", "a\n\n\nbcd\ne", "one line without an end",
                           "ab\ncd\nef\ngh\n", "x\na line that is longer than all the others\ny\nz"}) {
    for (int size = 1; size <= 9; ++size) check_lines(text, size);
  }
}

TEST_CASE("lines may be longer than a share and longer than the read buffer") {
  const std::string text =
      std::string(100'000, 'a') + "\nb\n" + std::string(50'000, 'c') + "\n" + std::string(16'384, 'd');
  for (const int size : {1, 2, 3, 7, 64}) check_lines(text, size);
}

TEST_CASE("each line of random text belongs to exactly one rank") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::string text(random() % 200, 'x');
    const unsigned one_in = 1 + random() % 20;
    for (char& c : text) c = random() % one_in == 0 ? '\n' : c;
    check_lines(text, 1 + static_cast<int>(random() % 10));
  }
}

TEST_CASE("a file that cannot be divided into lines is rejected with the reason") {
  TextFiles files;
  expect_error(ErrorKind::unavailable, {files.path_of("missing"), "No such file"},
               [&] { line_range(files.path_of("missing"), 0, 2); });
  expect_error(ErrorKind::unavailable, {"not a regular file"}, [&] { line_range(files.path_of("."), 0, 2); });
  REQUIRE(::mkfifo(files.path_of("pipe").c_str(), 0600) == 0);
  expect_error(ErrorKind::unavailable, {"not a regular file"}, [&] { line_range(files.path_of("pipe"), 0, 2); });
}

TEST_CASE("the largest remaining file goes to the rank with the fewest bytes") {
  // a goes to rank 0; b and c go to rank 1, which then has 8 bytes; d goes to rank 0, which then has 9; e goes to rank
  // 1.
  const std::vector<FileSize> files = {{"d", 2}, {"a", 7}, {"c", 3}, {"b", 5}, {"e", 1}};
  CHECK(whole_files(files, 0, 2) == std::vector<std::string>{"a", "d"});
  CHECK(whole_files(files, 1, 2) == std::vector<std::string>{"b", "c", "e"});
}

TEST_CASE("the distribution of files does not depend on their order") {
  std::vector<FileSize> files = {{"a", 4}, {"b", 4}, {"c", 4}, {"d", 9}, {"e", 0}, {"f", 0}, {"g", 1}};
  std::vector<std::vector<std::string>> expected;
  for (int rank = 0; rank < 3; ++rank) expected.push_back(whole_files(files, rank, 3));
  const auto by_name = [](const FileSize& a, const FileSize& b) { return a.name < b.name; };
  int orders = 0;
  do {
    for (int rank = 0; rank < 3; ++rank) {
      REQUIRE(whole_files(files, rank, 3) == expected[static_cast<std::size_t>(rank)]);
    }
  } while (++orders < 500 && std::ranges::next_permutation(files, by_name).found);
}

TEST_CASE("each file belongs to exactly one rank, and each rank has a file, even if files are empty") {
  for (const std::uint64_t largest : {0, 1, 1000}) {
    for (int count = 1; count <= 12; ++count) {
      std::vector<FileSize> files;
      std::vector<std::string> names;
      for (int i = 0; i < count; ++i) {
        names.push_back("file" + std::to_string(10 + i));
        files.push_back({names.back(), static_cast<std::uint64_t>(i * 379) % (largest + 1)});
      }
      for (int size = 1; size <= count; ++size) {
        std::vector<std::string> seen;
        for (int rank = 0; rank < size; ++rank) {
          const std::vector<std::string> own = whole_files(files, rank, size);
          REQUIRE(!own.empty());
          seen.insert(seen.end(), own.begin(), own.end());
        }
        std::ranges::sort(seen);
        REQUIRE(seen == names);
      }
    }
  }
}

TEST_CASE("fewer files than ranks are rejected") {
  const std::vector<FileSize> files = {{"a", 1}, {"b", 1}, {"c", 1}};
  expect_error(ErrorKind::invalid_argument, {"3 files for 4 ranks", "file_pieces"}, [&] { whole_files(files, 0, 4); });
  expect_error(ErrorKind::invalid_argument, {"0 files for 1 rank "}, [] { whole_files({}, 0, 1); });
}

TEST_CASE("pieces of files are equal parts of all files") {
  const std::vector<FileSize> files = {{"a", 8}, {"empty", 0}, {"b", 4}, {"c", 12}};
  using Pieces = std::vector<FilePiece>;
  CHECK(file_pieces(files, 0, 2) == Pieces{{"a", {0, 8}}, {"b", {0, 4}}});
  CHECK(file_pieces(files, 1, 2) == Pieces{{"c", {0, 12}}});
  CHECK(file_pieces(files, 0, 4, 4) == Pieces{{"a", {0, 8}}});
  CHECK(file_pieces(files, 1, 4, 4) == Pieces{{"b", {0, 4}}, {"c", {0, 4}}});
  CHECK(file_pieces(files, 3, 4, 4) == Pieces{{"c", {8, 12}}});
  CHECK(file_pieces({}, 0, 2).empty());
}

TEST_CASE("each byte of the files is in exactly one piece") {
  const std::vector<FileSize> files = {{"a", 9}, {"b", 0}, {"c", 30}, {"d", 3}, {"e", 15}};
  for (int size = 1; size <= 25; ++size) {
    for (const std::uint64_t record_bytes : {1, 3}) {
      std::map<std::string, std::uint64_t> ends;
      for (int rank = 0; rank < size; ++rank) {
        std::uint64_t bytes = 0;
        for (const FilePiece& piece : file_pieces(files, rank, size, record_bytes)) {
          REQUIRE(piece.range.bytes() > 0);
          REQUIRE(piece.range.first == ends[piece.name]);
          REQUIRE(piece.range.first % record_bytes == 0);
          ends[piece.name] = piece.range.end;
          bytes += piece.range.bytes();
        }
        REQUIRE(bytes == byte_range(57, rank, size, record_bytes).bytes());
      }
      REQUIRE(ends == std::map<std::string, std::uint64_t>{{"a", 9}, {"c", 30}, {"d", 3}, {"e", 15}});
    }
  }
}
