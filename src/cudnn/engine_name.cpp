#include "cudnn/engine_name.h"

#include <charconv>

namespace ucudnn::cudnn {

std::optional<EngineName> ParseEngineName(std::string_view text) {
  EngineName name;
  const auto skip = [&](std::string_view expected) {
    if (!text.starts_with(expected)) return false;
    text.remove_prefix(expected.size());
    return true;
  };
  const auto number = [&](auto& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  if (!skip("graph:") || !number(name.index)) return std::nullopt;
  if (text.empty()) return name;
  for (std::string_view separator = "[k"; skip(separator); separator = ",k") {
    auto& [type, value] = name.knobs.emplace_back();
    if (!number(type) || !skip("=") || !number(value)) return std::nullopt;
  }
  if (name.knobs.empty() || text != "]") return std::nullopt;
  return name;
}

std::string_view Unfused(std::string_view engine) { return engine.substr(0, engine.find('+')); }

}  // namespace ucudnn::cudnn
