// Single values as JSON text. Unlike nlohmann's arrays and objects, they may be used where memory
// may be out: their destructors allocate nothing. Pure function.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ucudnn {

template <typename Value>
std::string JsonScalar(const Value& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ucudnn
