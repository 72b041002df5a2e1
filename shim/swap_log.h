// The swap log: one line an event, `TIME PID text`. After a fork the child gets a file of its own.
#pragma once

// Folder of the default log, DIR/log/PID.log; ASMEVO_SWAP_LOG names another file.
void swap_log_open(const char* folder);

void swap_log(const char* format, ...) __attribute__((format(printf, 1, 2)));
