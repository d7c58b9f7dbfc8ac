#include "tests/support/zip_file.h"

#include <zlib.h>

#include <cstring>

namespace ucudnn::test {
namespace {

const Bytef* ZlibBytes(std::string_view bytes) {
  return reinterpret_cast<const Bytef*>(bytes.data());
}

// `window` as deflateInit2 takes it.
std::string Deflated(std::string_view bytes, int window) {
  z_stream zlib = {};
  deflateInit2(&zlib, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&zlib, bytes.size()), '\0');
  zlib.next_in = const_cast<Bytef*>(ZlibBytes(bytes));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  deflate(&zlib, Z_FINISH);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

std::string Number(size_t width, uint64_t number) {
  std::string bytes(width, '\0');
  PutNumber(bytes, 0, width, number);
  return bytes;
}

}  // namespace

std::string ZipOf(const std::vector<ZipPart>& parts) {
  std::string file, directory;
  for (const ZipPart& part : parts) {
    const std::string packed = part.deflated ? Deflated(part.bytes, -MAX_WBITS) : part.bytes;
    // From the version that reads it to the length of what is behind the name; of both records.
    const std::string common =
        Number(2, 20) + Number(2, 0) + Number(2, part.deflated ? 8 : 0) + Number(4, 0x00210000) +
        Number(4, crc32_z(0, ZlibBytes(part.bytes), part.bytes.size())) + Number(4, packed.size()) +
        Number(4, part.bytes.size()) + Number(2, part.name.size()) + Number(2, 0);
    directory += std::string(kZipCentral) + Number(2, 20) + common + std::string(10, '\0') +
                 Number(4, file.size()) + part.name;
    file += std::string(kZipLocal) + common + part.name + packed;
  }
  return file + directory + std::string(kZipEnd) + Number(4, 0) + Number(2, parts.size()) +
         Number(2, parts.size()) + Number(4, directory.size()) + Number(4, file.size()) +
         Number(2, 0);
}

std::string NpyOf(std::string_view header, std::string_view values) {
  return std::string("\x93NUMPY\1\0", 8) + Number(2, header.size() + 1) + std::string(header) +
         "\n" + std::string(values);
}

std::string NpyOf(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : shape) header += std::to_string(extent) + ", ";
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return NpyOf(header + "), }", bytes);
}

std::string GzipOf(std::string_view bytes) { return Deflated(bytes, 16 + MAX_WBITS); }

void PutNumber(std::string& bytes, size_t at, size_t width, uint64_t number) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
}

}  // namespace ucudnn::test
