#include "launcher/supervise/error_record.h"

#include <nlohmann/json.hpp>

#include <fstream>

#include "base/limits.h"

namespace ddp::launcher {

using Json = nlohmann::json;

std::optional<ErrorRecord> parse_error_record(std::string_view json) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("message")) return std::nullopt;
  const Json& message = document["message"];
  if (message.is_string()) return ErrorRecord{message.get<std::string>(), false};
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) return std::nullopt;
  ErrorRecord record{message["message"].get<std::string>(), false};
  if (message.contains("extraInfo") && message["extraInfo"].is_object()) {
    const Json& extra = message["extraInfo"];
    record.is_victim = extra.contains("ddp_kind") && extra["ddp_kind"] == "peer_lost";
  }
  return record;
}

std::optional<ErrorRecord> read_error_record(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(limits::kErrorFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_error_record(text);
}

}  // namespace ddp::launcher
