// What Frida runs inside the target: loads the resident C library and calls it. No hook of Frida's is used, and
// nothing here runs when a kernel is launched.
'use strict';

const ERROR_BYTES = 512;
const MAX_LISTS = 8;
let library = null;
let isOpen = false;

function call(name, result, types, values) {
    const f = new NativeFunction(library.getExportByName(name), result, types);
    return f(...values);
}

// Calls a function whose last arguments are a buffer for an error; throws what it wrote there.
function callChecked(name, types, values) {
    const error = Memory.alloc(ERROR_BYTES);
    const result =
        call(name, 'int', [...types, 'pointer', 'size_t'], [...values, error, ERROR_BYTES]);
    if (result < 0) {
        throw new Error(error.readUtf8String());
    }
    return result;
}

// Ends the session if it is ours: another asmevo may have one, which kept us from opening it.
function close() {
    const wasOpen = isOpen;
    isOpen = false;
    return wasOpen ? call('asmevo_capture_close', 'int', [], []) : 0;
}

rpc.exports = {
    load(path) {
        library = Module.load(path);
        return call('asmevo_capture_version', 'int', [], []);
    },

    findDebugLists() {
        const addresses = Memory.alloc(MAX_LISTS * 8);
        const count = call(
            'asmevo_capture_find_debug_lists', 'int', ['pointer', 'int'], [addresses, MAX_LISTS]);
        return Array.from({length: count}, (_, i) => addresses.add(8 * i).readU64().toString(16));
    },

    open(hipPaths) {
        const descriptor =
            callChecked('asmevo_capture_open', ['pointer'], [Memory.allocUtf8String(hipPaths)]);
        isOpen = true;
        return descriptor;
    },

    reserve(bytes) {
        return callChecked('asmevo_capture_reserve', ['uint64'], [bytes]);
    },

    hook() {
        return callChecked('asmevo_capture_hook', [], []);
    },

    forget() {
        return call('asmevo_capture_forget', 'int', [], []);
    },

    close: close,

    // Called when the script is unloaded, also because whoever attached is gone.
    dispose: close,
};
