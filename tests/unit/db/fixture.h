// Shared parts of the store's tests: a folder for each test, and rows to store.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "db/schema.h"
#include "db/sqlite_store.h"
#include "tests/support/problem.h"

namespace ucudnn::db {

inline ConvolutionProblem Problem(int n = 64, int channels = 64) {
  return test::ProblemWith(
      {.n = n, .c = channels, .k = 192, .x = {1, 27, 27}, .w = {1, 5, 5}, .pad = {0, 2, 2}});
}

inline const planning::Platform kPlatform{"NVIDIA H100 80GB HBM3", 91900, 13000};

inline planning::Measurement Row(const EngineId& engine, int micro_batch, double time_ms,
                                 size_t workspace_bytes = 0) {
  return {{engine, micro_batch, time_ms, workspace_bytes, true}, 5, true};
}

inline void RunSql(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

// A store for tests in which only rows matter, not which sizes are complete.
class RowStore : public SqliteStore {
 public:
  using SqliteStore::SqliteStore;
  using SqliteStore::Write;

  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& rows) {
    return SqliteStore::Write(problem, platform, rows, {});
  }
  Result<std::vector<planning::Measurement>> Rows(const ConvolutionProblem& problem,
                                                  const planning::Platform& platform) {
    UCUDNN_ASSIGN_OR_RETURN(planning::KernelMeasurements known, Read(problem, platform));
    return std::move(known.rows);
  }
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    std::string pattern = ::testing::TempDir() + "/store_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~StoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string Path(const std::string& name = "measurements.db") const {
    return folder_ + "/" + name;
  }
  static std::string Bytes(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }

  std::string folder_;
};

}  // namespace ucudnn::db
