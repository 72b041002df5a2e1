#include "hip/report_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "hip/log.h"

namespace asmevo::emulator::hip {
namespace {

// A program may launch a faulty kernel a million times.
constexpr unsigned kMostLines = 10'000;

/// -1: no file is wanted, or it cannot be opened.
int open_file() {
    const char* path = std::getenv("ASMEVO_EMULATOR_FINDINGS");
    if (!path || !*path) {
        return -1;
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) {
        log_error("ASMEVO_EMULATOR_FINDINGS=%s: %s", path, std::strerror(errno));
    }
    return file;
}

/// One write a line, so that those of several processes do not mix.
void append(int file, std::string line) {
    line += '\n';
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t wrote = write(file, line.data() + done, line.size() - done);
        if (wrote < 0 && errno != EINTR) {
            log_error("cannot write findings: %s", std::strerror(errno));
            return;
        }
        done += wrote > 0 ? static_cast<size_t>(wrote) : 0;
    }
}

}  // namespace

void keep_report(const Function& function, const DispatchResult& result, const std::string& report) {
    static const int file = open_file();
    static std::set<std::string> seen;
    static unsigned lines = 0;
    if (file < 0 || lines >= kMostLines) {
        return;
    }
    const bool is_first = seen.insert(function.metadata.name).second;
    if (is_first || !result.ok || !result.findings.empty()) {
        ++lines;
        append(file, report);
    }
}

}  // namespace asmevo::emulator::hip
