#include "command/run/reach.h"

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "command/run/elf.h"
#include "command/run/program.h"
#include "command/run/python_modules.h"
#include "command/run/script.h"

namespace ucudnn::command {
namespace {

namespace fs = std::filesystem;

// Scripts may name any number of files, which may name further ones. So Search examines at most so
// many files and words.
constexpr size_t kMostFiles = 64;
constexpr size_t kMostWords = 2048;

constexpr std::string_view kElf = "\177ELF";
constexpr std::string_view kCudnn = "libcudnn";
constexpr std::string_view kCudnnPath = "/libcudnn.so";
constexpr std::string_view kXlaPath = "XLA_GPU_LIBRARY_PATH";

// What reads a script or a text: a shell, Python, or neither. Matters if the script's first line
// names no interpreter.
enum class Reader { kNone, kShell, kPython };

Reader ReaderOf(const std::string& program) {
  static const std::set<std::string> kShells = {"sh",  "bash", "dash", "ash", "zsh",
                                                "ksh", "mksh", "fish", "csh", "tcsh"};
  if (IsPython(program)) return Reader::kPython;
  return kShells.contains(NameOf(program)) ? Reader::kShell : Reader::kNone;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the part of a script that suggests that the script opens cuDNN by its path; empty if
// there is none. The name of the file is enough, because the script may build the path from parts.
std::string_view OpensCudnn(std::string_view text) {
  if (Contains(text, kCudnn)) return kCudnn;
  return Contains(text, kXlaPath) ? kXlaPath : std::string_view();
}

bool IsReadableFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), R_OK) == 0;
}

// Searches the files and texts of a command until one seems to open cuDNN by its path.
class Search {
 public:
  explicit Search(const ReachEnvironment& environment) : environment_(environment) {}

  Reach Through(const std::string& program, const std::vector<std::string>& arguments) {
    AddFirst(program);
    LookAtWords(arguments, program);
    LookAtFiles();
    if (!opens_.empty()) return {true, opens_};
    const std::string nothing = "nothing seen opens cuDNN by its path";
    if (unseen_.empty()) return {false, nothing};
    return {false, nothing + ", but " + unseen_ +
                       " cannot be looked through: --dlsym on if what it starts does"};
  }

 private:
  struct File {
    std::string path;
    Reader reader;
  };

  void Add(const std::string& path, Reader reader) {
    if (added_.insert(path).second) waiting_.push_back({path, reader});
  }

  // Adds the program `path` to the front of the queue, because the command certainly starts it.
  // Does nothing if `path` is empty.
  void AddFirst(const std::string& path) {
    if (!path.empty()) waiting_.push_front({path, Reader::kNone});
  }

  // What a word may name: a program, a file that can be read, or both.
  struct Meaning {
    std::string program;  // empty if the word names no program
    bool is_file = false;
  };

  Meaning MeaningOf(const std::string& word) {
    const auto known = meanings_.find(word);
    if (known != meanings_.end()) return known->second;
    if (meanings_.size() == kMostWords) return {};
    const FoundProgram found = FindProgram(word, environment_.path);
    return meanings_[word] = {found.can_run.ok() ? found.path : std::string(),
                              IsReadableFile(word)};
  }

  // Records something that cannot be searched completely. Only the first is reported.
  void NoteUnseen(const std::string& what) {
    if (unseen_.empty()) unseen_ = what;
  }

  // Looks at the words of the arguments or the text of `runner`. Adds the programs and files that
  // they name, because `runner` may start or read these.
  void LookAtWords(const std::vector<std::string>& words, const std::string& runner) {
    Reader next = ReaderOf(runner);  // the reader of the next file
    Reader last = next;
    if (next == Reader::kShell) NoteUnseen(runner);
    for (const std::string& word : words) {
      if (Contains(word, kCudnnPath)) opens_ = "a word of the command has a path to cuDNN";
      if (word.find_first_of(" \t\n;&|") != std::string::npos) {
        LookAtText(word, runner, last);
      } else if (word.starts_with(kXlaPath)) {
        opens_ = std::string(kXlaPath) + " in the command has XLA open cuDNN by its path";
      } else if (!word.starts_with('-')) {
        const Meaning meaning = MeaningOf(word);
        const bool is_read = meaning.is_file && (next != Reader::kNone || meaning.program.empty());
        const std::string file = is_read ? word : meaning.program;
        if (file.empty()) continue;
        // A shell reads bin/activate to enter a virtual environment, and then probably starts its
        // Python.
        if (file.ends_with("/bin/activate"))
          AddFirst(MeaningOf(FolderOf(file) + "/python").program);
        Add(file, next);
        next = ReaderOf(file);
        if (next != Reader::kNone) last = next;
        if (next == Reader::kShell) NoteUnseen(word);
      }
      if (!opens_.empty()) return;
    }
  }

  // Looks at a word that is a program's text, such as the word after `bash -c` or `python3 -c`.
  void LookAtText(const std::string& word, const std::string& runner, Reader reader) {
    const std::string text = Statements(word);
    const std::string_view opens = OpensCudnn(text);
    if (!opens.empty()) opens_ = "a text in the command names " + std::string(opens);
    if (reader != Reader::kPython) LookAtWords(ShellWords(text), runner);
  }

  void LookAtFiles() {
    while (!waiting_.empty() && looked_at_.size() < kMostFiles && opens_.empty()) {
      const File file = std::move(waiting_.front());
      waiting_.pop_front();
      if (looked_at_.insert(file.path).second) LookAtFile(file);
    }
  }

  void LookAtFile(const File& file) {
    AddVersions(file.path);
    if (IsPython(file.path)) {
      const std::string package =
          CudnnPackage(file.path, environment_.module_path, environment_.user_base);
      if (!package.empty()) opens_ = package + " opens cuDNN by its path";
    }
    const std::optional<std::string> start = ReadStart(file.path);
    if (!start) return NoteUnseen(file.path);
    if (start->starts_with(kElf)) return LookAtProgram(file.path);
    LookAtScript(file, *start);
  }

  // Managers of Python versions put scripts into a folder "shims". Each script starts the program
  // of the same name in one of the versions, so this adds that program of each version.
  void AddVersions(const std::string& program) {
    const std::string folder = FolderOf(program);
    if (NameOf(folder) != "shims") return;
    std::error_code error;
    for (const auto& version : fs::directory_iterator(FolderOf(folder) + "/versions", error)) {
      AddFirst(MeaningOf(version.path().string() + "/bin/" + NameOf(program)).program);
    }
  }

  void LookAtProgram(const std::string& program) {
    if (NamesPath(program)) return;
    for (const NeededLibrary& library : NeededLibraries(program, "", environment_.library_path)) {
      const bool is_cudnn = library.name.starts_with("libcudnn");
      if (!is_cudnn && !library.path.empty() && NamesPath(library.path)) return;
    }
  }

  bool NamesPath(const std::string& path) {
    if (!read_.insert(path).second) return false;
    const Result<ElfFile> elf = ReadElf(path);
    if (!elf.ok() || !elf->names_cudnn_path) return false;
    opens_ = path + " has a path to cuDNN among its texts";
    return true;
  }

  void LookAtScript(const File& file, const std::string& start) {
    const std::string interpreter = InterpreterOf(start);
    const bool is_python = interpreter.empty()
                               ? file.reader == Reader::kPython || file.path.ends_with(".py")
                               : IsPython(interpreter);
    const bool is_script = start.starts_with("#!") || is_python || file.reader == Reader::kShell ||
                           file.path.ends_with(".sh");
    if (!is_script) return;
    if (!interpreter.empty()) AddFirst(MeaningOf(interpreter).program);
    const std::string text = Statements(start);
    const std::string_view opens = OpensCudnn(text);
    if (!opens.empty()) opens_ = file.path + " names " + std::string(opens);
    if (is_python || !opens_.empty()) return;
    NoteUnseen(file.path);
    LookAtWords(ShellWords(text), file.path);
  }

  const ReachEnvironment& environment_;
  std::deque<File> waiting_;
  std::set<std::string> added_;
  std::set<std::string> looked_at_;
  std::set<std::string> read_;               // ELF files that were read
  std::map<std::string, Meaning> meanings_;  // by word
  std::string opens_;   // a text about what opens cuDNN by its path; empty until that is found
  std::string unseen_;  // what cannot be searched completely; empty if there is nothing
};

}  // namespace

Result<DlsymHook> ParseDlsymHook(const std::string& text) {
  if (text == "auto") return DlsymHook::kAuto;
  if (text == "on") return DlsymHook::kOn;
  if (text == "off") return DlsymHook::kOff;
  return Status::Error("--dlsym '" + text + "': not auto, on or off");
}

Reach ChooseReach(DlsymHook wanted, const std::string& program,
                  const std::vector<std::string>& arguments, const ReachEnvironment& environment) {
  if (wanted == DlsymHook::kOn) return {true, "--dlsym on"};
  if (wanted == DlsymHook::kOff) return {false, "--dlsym off"};
  if (!environment.xla_path.empty()) {
    return {true, "XLA_GPU_LIBRARY_PATH has XLA open cuDNN by its path"};
  }
  return Search(environment).Through(program, arguments);
}

bool ReadsScripts(const std::string& program) { return ReaderOf(program) != Reader::kNone; }

}  // namespace ucudnn::command
