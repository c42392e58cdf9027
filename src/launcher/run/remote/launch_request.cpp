#include "launcher/run/remote/launch_request.h"

#include <ddp/version.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "launcher/run/remote/remote_texts.h"
#include "wire/control_message.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// JSON strings are Unicode, but arguments and variables are bytes.
using wire::bytes_to_text;
using wire::text_to_bytes;

std::vector<std::string> bytes_to_text(const std::vector<std::string>& all) {
  std::vector<std::string> texts;
  for (const std::string& each : all) texts.push_back(bytes_to_text(each));
  return texts;
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> all;
  for (const Json& each : json.at(name)) all.push_back(text_to_bytes(each.get<std::string>()));
  return all;
}

std::string text_of(const Json& json, const char* name) {
  return text_to_bytes(json.at(name).get<std::string>());
}

}  // namespace

std::string encode(const LaunchRequest& request) {
  return Json{{"protocol", kHostProtocol},
              {"version", DDP_VERSION_STRING},
              {"nonce", request.nonce},
              {"starter", bytes_to_text(request.controller)},
              {"host", bytes_to_text(request.host)},
              {"directory", bytes_to_text(request.directory)},
              {"words", bytes_to_text(request.words)},
              {"environment", bytes_to_text(request.environment)},
              {"token", bytes_to_text(request.token)}}
      .dump();
}

base::Result<LaunchRequest> decode_request(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.at("protocol").get<int>() != kHostProtocol) {
      return base::Failure{other_version_text(json.at("version").get<std::string>())};
    }
    LaunchRequest request;
    request.nonce = json.at("nonce").get<std::string>();
    request.controller = text_of(json, "starter");
    request.host = text_of(json, "host");
    request.directory = text_of(json, "directory");
    request.words = texts_of(json, "words");
    request.environment = texts_of(json, "environment");
    request.token = text_of(json, "token");
    if (!request.words.empty()) return request;
  } catch (const Json::exception&) {
  }
  return base::Failure{kNoRequestText};
}

std::string encode(const ControllerWord& word) {
  return (word.start ? Json{{"go", true}} : Json{{"signal", word.signal}}).dump();
}

std::optional<ControllerWord> decode_word(std::string_view line) try {
  const Json json = Json::parse(line);
  if (json.contains("go")) return ControllerWord{json.at("go").get<bool>(), 0};
  return ControllerWord{false, json.at("signal").get<int>()};
} catch (const Json::exception&) {
  return std::nullopt;
}

std::string reply_mark(const std::string& nonce) {
  return "\x1e"
         "ddplaunch " +
         nonce + " ";
}

std::string encode(const LaunchReply& reply) {
  return reply.ended ? "ended " + std::to_string(*reply.ended) : "ready";
}

std::optional<LaunchReply> decode_reply(std::string_view text) {
  constexpr std::string_view kEnded = "ended ";
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text == "ready") return LaunchReply{true, std::nullopt};
  if (!text.starts_with(kEnded)) return std::nullopt;
  const auto code = base::parse_integer(text.substr(kEnded.size()), 0, 255);
  if (!code) return std::nullopt;
  return LaunchReply{false, static_cast<int>(*code)};
}

}  // namespace ddp::launcher
