#include "launcher/see/report/open_document.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "support/catch.h"
#include "support/random_seed.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the text of a compressed file, or a note if it is not complete.
std::string decompressed(const std::string& path) {
  gzFile file = ::gzopen(path.c_str(), "rb");
  std::string text;
  std::array<char, 4096> buffer{};
  int count = 0;
  while ((count = ::gzread(file, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  if (::gzclose(file) != Z_OK || count < 0) text += "(incomplete)";
  return text;
}

std::unique_ptr<OpenDocument> opened(const std::string& path) {
  auto document = OpenDocument::open(path, "--trace=" + path);
  if (!document) FAIL(document.error().message);
  return std::move(document).value();
}

// Limits the size of files as long as it exists, so that the disk seems to be full.
class FullDisk {
 public:
  explicit FullDisk(std::size_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a document is complete after each addition") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace.json";
  std::ofstream(path) << "something older and longer than the first text";
  const auto document = opened(path);
  CHECK(contents(path).empty());
  CHECK_FALSE(document->add("[1", "]"));
  CHECK(contents(path) == "[1]");
  CHECK_FALSE(document->add(",2", "] a long end"));
  CHECK(contents(path) == "[1,2] a long end");
  CHECK(document->size() == 16);
  CHECK_FALSE(document->add("", "]"));
  CHECK(contents(path) == "[1,2]");
  CHECK_FALSE(document->close(",3", "]"));
  CHECK(contents(path) == "[1,2,3]");
}

TEST_CASE("a compressed document is complete after each addition") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace.json.gz";
  const auto document = opened(path);
  std::string text;
  for (int i = 0; i < 200; ++i) {
    const std::string part =
        std::string(static_cast<std::size_t>(i) * 37, static_cast<char>('a' + i % 26)) + std::to_string(i);
    text += part;
    REQUIRE_FALSE(document->add(part, "the end"));
    REQUIRE(decompressed(path) == text + "the end");
  }
  CHECK_FALSE(document->close("last", "."));
  CHECK(decompressed(path) == text + "last.");
  CHECK(contents(path).size() < text.size() / 10);
}

TEST_CASE("a document stays unchanged when the disk is full") {
  const TemporaryDirectory directory;
  std::mt19937 random(ddp::test::random_seed());  // the text must not become small by compression
  for (const char* name : {"/trace.json", "/trace.json.gz"}) {
    const std::string path = directory.path() + name;
    const auto document = opened(path);
    REQUIRE_FALSE(document->add("first ", "end"));
    const std::string before = contents(path);
    std::string noise(100'000, ' ');
    for (char& byte : noise) byte = static_cast<char>(random());
    std::string why;
    {
      const FullDisk full(4000);
      const auto failure = document->add(noise, "end");
      if (failure) why = failure->message;
    }
    CHECK(why == "cannot write --trace=" + path + ": File too large.");
    CHECK((contents(path) == before));
  }
}

TEST_CASE("a document that cannot be created reports the reason") {
  const auto failure = OpenDocument::open("/nowhere/trace.json", "--trace=/nowhere/trace.json");
  REQUIRE_FALSE(failure);
  CHECK(failure.error().message == "cannot write --trace=/nowhere/trace.json: No such file or directory.");
}

TEST_CASE("the later of two jobs that write the same document wins") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/t.json";
  const auto first = OpenDocument::open(path, "--trace=" + path).value();
  REQUIRE_FALSE(first->add("[1", "]"));
  const auto second = OpenDocument::open(path, "--trace=" + path).value();
  REQUIRE_FALSE(second->add("[20", "]"));
  const auto failure = first->add(",2", "]");
  REQUIRE(failure);
  CHECK(failure->message ==
        "cannot write --trace=" + path + ": another program has changed the file. Give each job a file of its own.");
  CHECK_FALSE(second->add(",30", "]"));
  CHECK(contents(path) == "[20,30]");
}

TEST_CASE("a reader of a pipe gets the end of the document once") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(OpenDocument::open(path, "--trace"));  // nothing reads it
  std::string text;
  std::ifstream reader;
  std::thread thread([&] { text = contents(path); });
  std::unique_ptr<OpenDocument> document;
  while (document == nullptr) {
    if (auto result = OpenDocument::open(path, "--trace")) document = std::move(result).value();
  }
  CHECK_FALSE(document->add("[1", "]"));
  CHECK_FALSE(document->add(",2", "]"));
  CHECK_FALSE(document->close("", "]"));
  document.reset();
  thread.join();
  CHECK(text == "[1,2]");
}
