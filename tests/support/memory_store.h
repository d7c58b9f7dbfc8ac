// A measurement store in memory that counts its calls and fails on demand.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planning/measurement_store.h"

namespace ucudnn::test {

class MemoryStore : public planning::MeasurementStore {
 public:
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override {
    std::lock_guard lock(mutex_);
    ++reads;
    if (read_fails) return Status::Error("the disk is gone");
    const auto kernel = Find(problem, platform);
    return kernel == kernels_.end() ? planning::KernelMeasurements() : kernel->measured;
  }

  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& measurements,
               const std::vector<int>& complete_sizes) override {
    std::lock_guard lock(mutex_);
    ++writes;
    if (write_fails) return Status::Error("the disk is full");
    auto kernel = Find(problem, platform);
    if (kernel == kernels_.end()) {
      kernel = kernels_.insert(kernel, {KernelFamily(problem), platform, {}});
    }
    auto& [rows, sizes] = kernel->measured;
    for (const planning::Measurement& row : measurements) {
      if (std::none_of(rows.begin(), rows.end(),
                       [&](const auto& old) { return Same(old.micro, row.micro); })) {
        rows.push_back(row);
      }
    }
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return std::tie(a.micro.micro_batch, a.micro.engine) <
             std::tie(b.micro.micro_batch, b.micro.engine);
    });
    sizes.insert(sizes.end(), complete_sizes.begin(), complete_sizes.end());
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return Status::Ok();
  }

  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const std::vector<MicroConfiguration>& verified) override {
    std::lock_guard lock(mutex_);
    if (write_fails) return Status::Error("the disk is full");
    const auto kernel = Find(problem, platform);
    if (kernel == kernels_.end()) return Status::Ok();
    for (planning::Measurement& row : kernel->measured.rows) {
      row.verified |= std::any_of(verified.begin(), verified.end(),
                                  [&](const auto& micro) { return Same(micro, row.micro); });
    }
    return Status::Ok();
  }

  Result<std::optional<std::string>> FindNote(const ConvolutionProblem& problem,
                                              const planning::Platform& platform,
                                              const std::string& about) override {
    std::lock_guard lock(mutex_);
    if (read_fails) return Status::Error("the disk is gone");
    for (const Note& note : notes) {
      if (note.IsOf(problem, platform, about)) return std::optional(note.note);
    }
    return std::optional<std::string>();
  }

  Status KeepNote(const ConvolutionProblem& problem, const planning::Platform& platform,
                  const std::string& about, const std::string& note) override {
    std::lock_guard lock(mutex_);
    if (write_fails) return Status::Error("the disk is full");
    std::erase_if(notes, [&](const Note& other) { return other.IsOf(problem, platform, about); });
    notes.push_back({problem, platform, about, note});
    return Status::Ok();
  }

  Result<std::optional<planning::EnginePromise>> FindPromise(
      const planning::EnginePromise& asked) override {
    std::lock_guard lock(mutex_);
    if (read_fails || promises_fail) return Status::Error("the disk is gone");
    const auto kept = FindKept(asked);
    if (kept == promises.end()) return std::optional<planning::EnginePromise>();
    return std::optional(*kept);
  }

  Result<planning::EnginePromise> KeepPromise(const planning::EnginePromise& promise) override {
    std::lock_guard lock(mutex_);
    if (write_fails) return Status::Error("the disk is full");
    // Like stores in files, this store refuses promises that CheckPromise refuses.
    UCUDNN_RETURN_IF_ERROR(planning::CheckPromise(promise));
    const auto kept = FindKept(promise);
    return kept == promises.end() ? promises.emplace_back(promise) : *kept;
  }

  struct Note {
    ConvolutionProblem problem;
    planning::Platform platform;
    std::string about, note;

    bool IsOf(const ConvolutionProblem& of, const planning::Platform& on,
              const std::string& what) const {
      return problem == of && platform == on && about == what;
    }
  };
  std::vector<Note> notes;
  std::vector<planning::EnginePromise> promises;
  int reads = 0;
  int writes = 0;
  bool read_fails = false;
  bool promises_fail = false;  // reading promises fails
  bool write_fails = false;

 private:
  struct Kernel {
    ConvolutionProblem family;
    planning::Platform platform;
    planning::KernelMeasurements measured;
  };
  static bool Same(const MicroConfiguration& a, const MicroConfiguration& b) {
    return a.engine == b.engine && a.micro_batch == b.micro_batch;
  }
  std::vector<planning::EnginePromise>::iterator FindKept(const planning::EnginePromise& asked) {
    return std::find_if(promises.begin(), promises.end(), [&](const auto& kept) {
      return std::tie(kept.problem, kept.platform, kept.engine, kept.limit_bytes) ==
             std::tie(asked.problem, asked.platform, asked.engine, asked.limit_bytes);
    });
  }
  std::vector<Kernel>::iterator Find(const ConvolutionProblem& problem,
                                     const planning::Platform& platform) {
    return std::find_if(kernels_.begin(), kernels_.end(), [&](const Kernel& kernel) {
      return kernel.family == KernelFamily(problem) && kernel.platform == platform;
    });
  }

  std::mutex mutex_;
  std::vector<Kernel> kernels_;
};

}  // namespace ucudnn::test
