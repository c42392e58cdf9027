#include "runtime/progress/error_file.h"

#include <nlohmann/json.hpp>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv is POSIX

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using ddp::ErrorKind;
using ddp::internal::record_error;

namespace {

constexpr const char* kVariable = "TORCHELASTIC_ERROR_FILE";

// Sets the path of the error file in the environment, as the launcher does.
class ErrorFile {
 public:
  explicit ErrorFile(const std::string& name = "error.json") : path_(directory_.path() + "/" + name) {
    ::setenv(kVariable, path_.c_str(), 1);
  }
  ~ErrorFile() { ::unsetenv(kVariable); }

  bool exists() const { return std::filesystem::exists(path_); }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  nlohmann::json record() const { return nlohmann::json::parse(text()); }

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

}  // namespace

TEST_CASE("an error is recorded in the format of torchelastic") {
  const ErrorFile file;
  record_error(ErrorKind::peer_lost, "rank 3: all_reduce #12 broke");
  const auto message = file.record().at("message");
  CHECK(message.at("message") == "ddp::Error (peer_lost): rank 3: all_reduce #12 broke");
  CHECK(message.at("extraInfo").at("ddp_kind") == "peer_lost");
  CHECK(std::stoll(message.at("extraInfo").at("timestamp").get<std::string>()) > 1'600'000'000);
}

TEST_CASE("the first recorded error is kept") {
  const ErrorFile file;
  record_error(ErrorKind::mismatch, "the cause");
  record_error(ErrorKind::aborted, "what followed");
  CHECK(file.record().at("message").at("extraInfo").at("ddp_kind") == "mismatch");
}

TEST_CASE("an error record is valid JSON for any bytes in the message") {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  const ErrorFile file;
  record_error(ErrorKind::unavailable, "\"quoted\" \\ \xC3\xA4 " + every_byte);
  CHECK_THAT(file.record().at("message").at("message").get<std::string>(), Catch::Contains("\"quoted\" \\ \xC3\xA4"));
}

TEST_CASE("no error file is written without its variable") {
  const ErrorFile file;
  ::unsetenv(kVariable);
  record_error(ErrorKind::internal, "nobody listens");
  ::setenv(kVariable, "", 1);
  record_error(ErrorKind::internal, "nobody listens");
  CHECK_FALSE(file.exists());
}

TEST_CASE("an error file that cannot be written is not an error") {
  const ErrorFile file("no/such/directory/error.json");
  record_error(ErrorKind::internal, "lost");
  CHECK_FALSE(file.exists());
}
