#include "convolution/engine_id.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ucudnn {
namespace {

constexpr std::string_view kLegacy = "legacy:", kMath = "[math=", kGraph = "graph:", kSum = "sum",
                           kPack = "pack";
constexpr int kMostMath = static_cast<int>(MathType::kFma);

bool IsKnown(const EngineId::Legacy& engine) {
  const int math = engine.math ? static_cast<int>(*engine.math) : 0;
  return engine.algorithm >= 0 && engine.algorithm <= EngineId::kMostAlgorithm && math >= 0 &&
         math <= kMostMath;
}

std::string TextOf(const EngineId::Graph& engine) {
  std::string text(kGraph);
  text += std::to_string(engine.index);
  const char* separator = "[k";
  for (const auto& [type, value] : engine.knobs) {
    text.append(separator).append(std::to_string(type)).append("=").append(std::to_string(value));
    separator = ",k";
  }
  if (!engine.knobs.empty()) text += "]";
  return text += engine.fusion;
}

// Reads a text from front to back.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool Skip(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  template <typename Number>
  bool Read(Number& value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Returns the engine that `text` seems to name. The caller compares the engine's own text with
// `text`, because a number can be written in several ways, such as "01", but an engine has only one
// text.
std::optional<EngineId::Legacy> ReadLegacy(std::string_view text) {
  Reader reader(text);
  EngineId::Legacy engine;
  if (!reader.Skip(kLegacy) || !reader.Read(engine.algorithm)) return std::nullopt;
  if (reader.Skip(kMath)) {
    int math = 0;
    if (!reader.Read(math) || !reader.Skip("]")) return std::nullopt;
    engine.math = static_cast<MathType>(math);
  }
  if (!reader.done() || !IsKnown(engine)) return std::nullopt;
  return engine;
}

std::optional<EngineId::Graph> ReadGraph(std::string_view text) {
  Reader reader(text);
  EngineId::Graph engine;
  if (!reader.Skip(kGraph) || !reader.Read(engine.index)) return std::nullopt;
  for (std::string_view separator = "[k"; reader.Skip(separator); separator = ",k") {
    auto& [type, value] = engine.knobs.emplace_back();
    if (!reader.Read(type) || !reader.Skip("=") || !reader.Read(value)) return std::nullopt;
  }
  if (!engine.knobs.empty() && !reader.Skip("]")) return std::nullopt;
  const bool ends = reader.done() || reader.rest()[0] == '+' || reader.rest()[0] == ':';
  if (!ends) return std::nullopt;
  engine.fusion = reader.rest();
  return engine;
}

}  // namespace

// A view of an engine's text. The text is stored in the engine or in this object, so comparing
// engines allocates nothing.
class EngineId::View {
 public:
  explicit View(const EngineId& engine) {
    if (const Legacy* const legacy = engine.legacy()) {
      Write(*legacy);
    } else if (const auto* const graph = std::get_if<SharedGraph>(&engine.value_)) {
      text_ = (*graph)->text;
    } else if (const auto* const foreign = std::get_if<Foreign>(&engine.value_)) {
      text_ = **foreign;
    } else if (engine.is_partial_sum()) {
      text_ = kSum;
    } else if (engine.is_packing()) {
      text_ = kPack;
    }
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::string_view text() const { return text_; }

 private:
  void Write(const Legacy& legacy) {
    char* end = std::copy(kLegacy.begin(), kLegacy.end(), buffer_.data());
    end = std::to_chars(end, buffer_.data() + buffer_.size(), legacy.algorithm).ptr;
    if (legacy.math) {
      end = std::copy(kMath.begin(), kMath.end(), end);
      *end++ = static_cast<char>('0' + static_cast<int>(*legacy.math));
      *end++ = ']';
    }
    text_ = {buffer_.data(), static_cast<size_t>(end - buffer_.data())};
  }

  static_assert(kMostAlgorithm < 100 && kMostMath < 10);
  std::array<char, kLegacy.size() + 2 + kMath.size() + 2> buffer_;
  std::string_view text_;
};

EngineId::EngineId(std::string_view text) {
  if (text.empty()) return;
  if (text == kSum) {
    value_ = PartialSum{};
    return;
  }
  if (text == kPack) {
    value_ = Packing{};
    return;
  }
  if (const std::optional<Legacy> legacy = ReadLegacy(text)) {
    value_ = *legacy;
    if (View(*this).text() == text) return;
  } else if (std::optional<Graph> graph = ReadGraph(text); graph && TextOf(*graph) == text) {
    value_ = std::make_shared<const NamedGraph>(NamedGraph{std::string(text), std::move(*graph)});
    return;
  }
  value_ = std::make_shared<const std::string>(text);
}

EngineId::EngineId(const Legacy& legacy) {
  if (IsKnown(legacy)) {
    value_ = legacy;
    return;
  }
  std::string text(kLegacy);
  text += std::to_string(legacy.algorithm);
  if (legacy.math) {
    text.append(kMath).append(std::to_string(static_cast<int>(*legacy.math))).append("]");
  }
  value_ = std::make_shared<const std::string>(std::move(text));
}

EngineId::EngineId(const Graph& graph) : EngineId(TextOf(graph)) {}

std::string EngineId::Text() const { return std::string(View(*this).text()); }

const EngineId::Graph* EngineId::graph() const {
  const auto* const named = std::get_if<SharedGraph>(&value_);
  return named == nullptr ? nullptr : &(*named)->graph;
}

bool EngineId::of_graph_api() const { return View(*this).text().starts_with(kGraph); }

EngineId EngineId::Unfused() const {
  const Graph* const fused = graph();
  if (fused == nullptr || fused->fusion.empty()) return *this;
  Graph alone = *fused;
  alone.fusion.clear();
  return alone;
}

size_t EngineId::Hash() const { return std::hash<std::string_view>()(View(*this).text()); }

bool operator==(const EngineId& a, const EngineId& b) {
  if (a.value_ == b.value_) return true;
  // Engines of different kinds have different texts, and equal legacy engines were found above. So
  // texts must be compared only between two graph engines or two foreign engines.
  const bool differ = a.value_.index() != b.value_.index() || a.legacy() != nullptr;
  return !differ && EngineId::View(a).text() == EngineId::View(b).text();
}

std::strong_ordering operator<=>(const EngineId& a, const EngineId& b) {
  return EngineId::View(a).text() <=> EngineId::View(b).text();
}

}  // namespace ucudnn
