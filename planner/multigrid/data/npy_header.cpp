#include "planner/multigrid/data/npy_header.h"

#include <array>
#include <charconv>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

constexpr size_t kMostNpyAxes = 64;  // of NumPy's own arrays

struct NpyType {
  std::string_view descr;
  NpyKind kind;
  size_t item_bytes;
};

constexpr std::array kNpyTypes = {
    NpyType{"<f8", NpyKind::kFloat, 8},    NpyType{"<f4", NpyKind::kFloat, 4},
    NpyType{"<f2", NpyKind::kFloat, 2},    NpyType{"<i8", NpyKind::kSigned, 8},
    NpyType{"<i4", NpyKind::kSigned, 4},   NpyType{"<i2", NpyKind::kSigned, 2},
    NpyType{"|i1", NpyKind::kSigned, 1},   NpyType{"<u8", NpyKind::kUnsigned, 8},
    NpyType{"<u4", NpyKind::kUnsigned, 4}, NpyType{"<u2", NpyKind::kUnsigned, 2},
    NpyType{"|u1", NpyKind::kUnsigned, 1},
};

// Reads the text from its beginning to its end. What cannot be read is a fault that stays.
class NpyText {
 public:
  explicit NpyText(std::string_view text) : whole_(text), left_(text) {}

  // Removes space and `token` where they are next.
  bool Take(std::string_view token) {
    const size_t space = left_.find_first_not_of(" \t\r\n");
    if (space == std::string_view::npos || !left_.substr(space).starts_with(token)) return false;
    left_.remove_prefix(space + token.size());
    return true;
  }

  Status Expect(std::string_view token) {
    return Take(token) ? Status::Ok() : Fault(Quoted(token));
  }

  Result<std::string_view> TakeString() {
    for (const char* const quote : {"'", "\""}) {
      if (!Take(quote)) continue;
      const size_t end = left_.find(quote);
      if (end == std::string_view::npos) return Fault("a string that ends");
      const std::string_view string = left_.substr(0, end);
      left_.remove_prefix(end + 1);
      return string;
    }
    return Fault("a string");
  }

  Result<int64_t> TakeExtent() {
    Take("");  // space
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), extent);
    if (error != std::errc() || extent < 0) return Fault("a whole number from 0 to 2^63 - 1");
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    return extent;
  }

  bool AtEnd() const { return left_.find_first_not_of(" \t\r\n") == std::string_view::npos; }

  Status Fault(const std::string& expected) const {
    return Status::Error("header " + Quoted(whole_) + " at character " +
                         std::to_string(whole_.size() - left_.size()) + "; expected " + expected);
  }

 private:
  const std::string_view whole_;
  std::string_view left_;
};

Status TakeType(NpyText& text, NpyHeader& header) {
  if (text.Take("[")) {
    return Status::Error("an array of records; expected one of numbers, as '<f8'");
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string_view descr, text.TakeString());
  for (const NpyType& type : kNpyTypes) {
    if (type.descr != descr) continue;
    header.kind = type.kind;
    header.item_bytes = type.item_bytes;
    return Status::Ok();
  }
  return Status::Error("values of type " + Quoted(descr) +
                       "; expected '<f8', '<f4', '<f2' or whole numbers of low byte first");
}

Status TakeOrder(NpyText& text, NpyHeader& header) {
  header.fortran_order = text.Take("True");
  return header.fortran_order ? Status::Ok() : text.Expect("False");
}

Status TakeShape(NpyText& text, NpyHeader& header) {
  UCUDNN_RETURN_IF_ERROR(text.Expect("("));
  while (!text.Take(")")) {
    if (header.shape.size() == kMostNpyAxes) return text.Fault("at most 64 axes");
    UCUDNN_ASSIGN_OR_RETURN(const int64_t extent, text.TakeExtent());
    text.Take("L");  // NumPy of Python 2 wrote whole numbers so
    header.shape.push_back(extent);
    if (!text.Take(",")) {
      UCUDNN_RETURN_IF_ERROR(text.Expect(")"));
      break;
    }
  }
  return Status::Ok();
}

}  // namespace

Result<size_t> NpySizeBytes(std::string_view magic) {
  constexpr std::string_view kNpyMagic("\x93NUMPY");
  if (!magic.starts_with(kNpyMagic)) {
    return Status::Error("begins with " + Quoted(magic.substr(0, kNpyMagic.size())) +
                         "; expected a .npy array, " + Quoted(kNpyMagic));
  }
  const int major = static_cast<unsigned char>(magic[kNpyMagic.size()]);
  const int minor = static_cast<unsigned char>(magic[kNpyMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return Status::Error(".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                         "; expected 1.0, 2.0 or 3.0");
  }
  return major == 1 ? 2 : 4;
}

Result<NpyHeader> ParseNpyText(std::string_view header_text) {
  struct Entry {
    std::string_view key;
    Status (*take)(NpyText&, NpyHeader&);
    bool is_read = false;
  };
  std::array entries = {Entry{"descr", TakeType}, Entry{"fortran_order", TakeOrder},
                        Entry{"shape", TakeShape}};
  NpyText text(header_text);
  NpyHeader header;
  UCUDNN_RETURN_IF_ERROR(text.Expect("{"));
  while (!text.Take("}")) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string_view key, text.TakeString());
    Entry* entry = nullptr;
    for (Entry& known : entries) {
      if (known.key == key && !known.is_read) entry = &known;
    }
    if (entry == nullptr) {
      return Status::Error("header entry " + Quoted(key) +
                           "; expected 'descr', 'fortran_order' and 'shape', each once");
    }
    UCUDNN_RETURN_IF_ERROR(text.Expect(":"));
    UCUDNN_RETURN_IF_ERROR(entry->take(text, header));
    entry->is_read = true;
    if (!text.Take(",")) {
      UCUDNN_RETURN_IF_ERROR(text.Expect("}"));
      break;
    }
  }
  for (const Entry& entry : entries) {
    if (!entry.is_read) return text.Fault("an entry " + Quoted(entry.key));
  }
  if (!text.AtEnd()) return text.Fault("nothing but space");
  return header;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + Join(extents, ", ") + "]";
}

}  // namespace ucudnn::multigrid
