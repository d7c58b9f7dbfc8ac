// The engine that runs a convolution, as a value: an algorithm of the legacy API, an engine of the
// graph API, auxiliary work of pieces (PartialSum, Packing), or any other engine that an imported
// measurement names. Stores, files, reports and messages contain the engine's text. Plain values;
// thread-compatible.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "convolution/problem.h"

namespace ucudnn {

// Copies share their content and allocate nothing. A legacy engine has nothing on the heap.
class EngineId {
 public:
  // "legacy:1" is algorithm 1 with the problem's own math type, "legacy:1[math=1]" with math type 1
  // (cudnnMathType_t).
  struct Legacy {
    int algorithm = 0;             // 0 to kMostAlgorithm
    std::optional<MathType> math;  // set if it differs from the problem's

    bool operator==(const Legacy&) const = default;
  };
  static constexpr int kMostAlgorithm = 99;

  // "graph:38[k2=1,k14=0]+bias+relu" is engine 38 of an operation graph with knob 2 at 1 and knob
  // 14 at 0, other knobs at their default; a bias and an activation are fused after the
  // convolution.
  struct Graph {
    using Knob = std::pair<int, int64_t>;  // cudnnBackendKnobType_t and value

    int64_t index = 0;
    std::vector<Knob> knobs;  // in the order of the text
    // The end of the text, from "+", or from ":fp16" if the fused operations read an intermediate
    // result of that type. Empty if nothing is fused.
    std::string fusion;

    bool operator==(const Graph&) const = default;
  };

  // "sum" adds up partials (convolution/partial_sums.h).
  struct PartialSum {
    bool operator==(const PartialSum&) const = default;
  };

  // "pack" copies a tile into its packed form, and copies the result back (convolution/tiles.h).
  struct Packing {
    bool operator==(const Packing&) const = default;
  };

  // Makes an empty value, which names no engine and has an empty text. A value that was moved from
  // is empty, too.
  EngineId() = default;
  EngineId(const EngineId&) = default;
  EngineId(EngineId&& other) noexcept : value_(std::exchange(other.value_, {})) {}
  EngineId& operator=(const EngineId&) = default;
  EngineId& operator=(EngineId&& other) noexcept {
    value_ = std::exchange(other.value_, {});
    return *this;
  }
  ~EngineId() = default;
  // Makes the engine that `text` names, or an empty value if `text` is empty. Any other text makes
  // a foreign engine, which keeps the text unchanged and cannot run.
  EngineId(std::string_view text);                                  // NOLINT: implicit by design
  EngineId(const char* text) : EngineId(std::string_view(text)) {}  // NOLINT: implicit by design
  EngineId(const std::string& text) : EngineId(std::string_view(text)) {}  // NOLINT: as above
  // Makes a foreign engine if the algorithm of `legacy` is above kMostAlgorithm or its math type is
  // unknown.
  EngineId(const Legacy& legacy);            // NOLINT: implicit by design
  EngineId(const Graph& graph);              // NOLINT: implicit by design
  EngineId(PartialSum sum) : value_(sum) {}  // NOLINT: implicit by design
  EngineId(Packing pack) : value_(pack) {}   // NOLINT: implicit by design

  // Returns the engine's text. If the engine was made from a text, the result is that text, byte
  // for byte.
  std::string Text() const;
  bool empty() const { return std::holds_alternative<std::monostate>(value_); }

  // Returns null if the engine is of another kind. The result lives as long as this object.
  const Legacy* legacy() const { return std::get_if<Legacy>(&value_); }
  const Graph* graph() const;
  bool is_partial_sum() const { return std::holds_alternative<PartialSum>(value_); }
  bool is_packing() const { return std::holds_alternative<Packing>(value_); }
  // Returns whether the engine is auxiliary work of pieces. Such work computes no convolution, but
  // is measured as engines are.
  bool is_auxiliary() const { return is_partial_sum() || is_packing(); }
  // Returns whether the text begins with "graph:", and so claims to name an engine of the graph
  // API. Measurements of such engines are kept apart from measurements of legacy engines.
  bool of_graph_api() const;

  // Returns the engine without the operations that are fused after the convolution.
  EngineId Unfused() const;

  // Engines are compared by their texts.
  friend bool operator==(const EngineId& a, const EngineId& b);
  friend std::strong_ordering operator<=>(const EngineId& a, const EngineId& b);
  friend std::ostream& operator<<(std::ostream& out, const EngineId& engine) {
    return out << engine.Text();
  }

 private:
  friend struct std::hash<EngineId>;
  struct NamedGraph {
    std::string text;
    Graph graph;
  };
  using SharedGraph = std::shared_ptr<const NamedGraph>;
  using Foreign = std::shared_ptr<const std::string>;
  class View;

  size_t Hash() const;  // of the text

  std::variant<std::monostate, Legacy, PartialSum, Packing, SharedGraph, Foreign> value_;
};

}  // namespace ucudnn

template <>
struct std::hash<ucudnn::EngineId> {
  size_t operator()(const ucudnn::EngineId& engine) const { return engine.Hash(); }
};
