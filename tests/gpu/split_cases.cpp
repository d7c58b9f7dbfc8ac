// Runs convolutions of images that are cut into ROWS x COLUMNS cells. With WORLD_SIZE processes,
// process RANK holds cell RANK; cells are numbered row by row. A process without these variables
// holds whole images. The program prints one line for each convolution and cell: the convolution's
// name, a checksum of the cell's part of its result rounded to whole numbers, and how far the
// result is from whole numbers. The data are whole numbers that depend only on the place in the
// whole image, so all processes together, under ucudnn, must print the checksums that one process
// with whole images prints. If a convolution fails, its line says so, and the next convolution
// follows. The program knows nothing of ucudnn.
//
//   split_cases ROWS COLUMNS [WORKSPACE_MIB [SHAPES]]
//
// With ON_THREADS, threads of one process hold the cells, each with a device of its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "convolution.h"

namespace {

using namespace ucudnn::gpu_tests;  // NOLINT: this is a program of one page

// All cells of an image have the same size, so heights and widths are multiples of four times the
// stride. RunAll reduces them to three quarters if there are three rows of cells. A filter of 7
// covers most of a stripe of 4 pixel rows. With four rows of cells, an image of a cell of
// `odd_image` has 72 bytes in 16-bit types, so every second image begins 8 bytes after a multiple
// of 16.
constexpr Shape kShapes[] = {{"odd_image", 13, 1, 12, 8, 3, 1, 1, 1},
                             {"5x5_stride_2", 13, 16, 32, 32, 5, 2, 2, 1},
                             {"7x7", 8, 32, 16, 32, 7, 3, 1, 1},
                             {"grouped", 13, 32, 16, 32, 3, 1, 1, 4},
                             {"1x1", 16, 64, 16, 128, 1, 0, 1, 1}};

struct Grid {
  int rows, columns;
  std::optional<int> rank;  // the cell of this process; none if it has whole images

  Cell CellOf(int of) const { return {rows, columns, of / columns, of % columns}; }
  std::vector<int> OwnRanks() const {
    if (rank) return {*rank};
    std::vector<int> all(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    return all;
  }
};

void PrintLine(const Case& of, int rank, const char* result) {
  std::printf("%s/%s/%s/%s/%d %s\n", of.shape.name, Name(of.type), Name(of.layout),
              Name(of.operation), rank, result);
}

// Runs the convolution three times. The first run has beta = 0 and must not read the output. The
// second run has beta = 1 and doubles the result. The third run computes 3 times the result minus
// the doubled result, which is the result again.
cudnnStatus_t RunThrice(Convolution& convolution, void* workspace,
                        std::vector<std::vector<float>>* results) {
  convolution.output().FillWithNan();
  constexpr std::pair<float, float> kScales[] = {{1, 0}, {1, 1}, {3, -1}};
  for (const auto& [alpha, beta] : kScales) {
    const cudnnStatus_t status = convolution.TryToRun(workspace, beta, alpha);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    results->push_back(convolution.output().Values());
  }
  return CUDNN_STATUS_SUCCESS;
}

void RunCase(const Case& of, const Grid& grid, size_t bytes) {
  const std::vector<int> ranks = grid.OwnRanks();
  const Cell held = grid.rank ? grid.CellOf(*grid.rank) : Cell{};
  Convolution convolution(of.handle, of.shape, of.type, of.layout, of.operation, held);
  std::vector<std::vector<float>> results;
  const char* fault = nullptr;
  if (!convolution.Find(of.workspace, bytes)) {
    fault = "unsupported";
  } else if (const cudnnStatus_t status = RunThrice(convolution, of.workspace, &results);
             status != CUDNN_STATUS_SUCCESS) {
    fault = cudnnGetErrorString(status);
  }
  for (const int rank : ranks) {
    if (fault != nullptr) {
      PrintLine(of, rank, fault);
      continue;
    }
    WholeNumbers told;
    for (const std::vector<float>& result : results) {
      if (grid.rank) {
        for (const float value : result) told.Add(value);
      } else {
        const auto places = OutputPlaces(of.shape, of.layout, of.operation, grid.CellOf(rank));
        for (const size_t place : places) told.Add(result[place]);
      }
    }
    char text[64];
    std::snprintf(text, sizeof text, "%016llx %.4f", told.checksum, told.off_whole);
    PrintLine(of, rank, text);
  }
}

void RunAll(const Grid& grid, size_t shapes, size_t bytes) {
  constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF,
                                        CUDNN_DATA_BFLOAT16};
  std::vector<Shape> some(kShapes, kShapes + std::min(shapes, std::size(kShapes)));
  for (Shape& shape : some) shape.size = grid.rows == 3 ? shape.size / 4 * 3 : shape.size;
  ForEachCase(some, kTypes, bytes, [&](const Case& of) { RunCase(of, grid, bytes); });
}

std::optional<Grid> ReadGrid(int argc, char** argv) {
  Grid grid = {argc > 2 ? std::atoi(argv[1]) : 0, argc > 2 ? std::atoi(argv[2]) : 0, {}};
  const char* const rank = std::getenv("RANK");
  const char* const ranks = std::getenv("WORLD_SIZE");
  const bool cuts = grid.rows > 0 && grid.columns > 0 && 12 % grid.rows == 0 &&
                    4 % grid.columns == 0 && grid.rows <= 4 &&
                    (grid.rows != 3 || grid.columns == 1);
  if (!cuts || (rank != nullptr && (!ranks || std::atoi(ranks) != grid.rows * grid.columns))) {
    return std::nullopt;
  }
  if (rank != nullptr) grid.rank = std::atoi(rank);
  return grid;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Grid> grid = ReadGrid(argc, argv);
  if (!grid) {
    std::fprintf(stderr,
                 "usage: split_cases ROWS COLUMNS [WORKSPACE_MIB [SHAPES]], of 1, 2 or 4 each, or "
                 "3 rows, in "
                 "one process or with one for each cell\n");
    return 2;
  }
  const size_t bytes = (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 256) << 20;
  const size_t shapes = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : std::size(kShapes);
  if (std::getenv("ON_THREADS") == nullptr) {
    const char* const device = std::getenv("LOCAL_RANK");
    if (device != nullptr) Check(cudaSetDevice(std::atoi(device)), "cudaSetDevice");
    RunAll(*grid, shapes, bytes);
    return 0;
  }
  std::vector<std::thread> threads;
  for (const int rank : grid->OwnRanks()) {
    threads.emplace_back([&, rank] {
      Check(cudaSetDevice(rank), "cudaSetDevice");
      RunAll({grid->rows, grid->columns, rank}, shapes, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
