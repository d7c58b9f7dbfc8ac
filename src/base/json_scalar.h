// Formats single values as JSON text, even when memory is out. This is possible because nlohmann's
// single values, unlike its arrays and objects, allocate nothing when they are destroyed. Pure
// function.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ucudnn {

template <typename Value>
std::string JsonScalar(const Value& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ucudnn
