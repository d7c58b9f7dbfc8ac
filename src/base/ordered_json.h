// Makes lists and texts of nlohmann's JSON values, for documents that the planner and the command
// write. Code in the application's process uses json_members.h instead, because the destructors of
// nlohmann's lists and objects allocate. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ucudnn {

using Json = nlohmann::ordered_json;

// Returns `value` as JSON; null if there is none.
template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

// Returns a list with json_of(item) for each item.
template <typename Items, typename JsonOf>
Json JsonList(const Items& items, const JsonOf& json_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}

// Returns JSON text with one line per member. Names may have any bytes.
inline std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn
