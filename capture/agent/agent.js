// What Frida runs inside the target: loads the resident C library and calls it. No hook of Frida's is used, and
// nothing here runs when a kernel is launched.
'use strict';

const ERROR_BYTES = 512;
const MAX_LISTS = 8;
let library = null;  // a handle of dlopen's
let isOpen = false;

function callLibc(name, result, types, values) {
    const f = new NativeFunction(Module.getGlobalExportByName(name), result, types);
    return f(...values);
}

function call(name, result, types, values) {
    const address = callLibc(
        'dlsym', 'pointer', ['pointer', 'pointer'], [library, Memory.allocUtf8String(name)]);
    if (address.isNull()) {
        throw new Error(`the capture library has no ${name}`);
    }
    return new NativeFunction(address, result, types)(...values);
}

// Loads the library for ever; its version.
function open(path) {
    const RTLD_NOW = 2;
    library = callLibc(
        'dlopen', 'pointer', ['pointer', 'int'], [Memory.allocUtf8String(path), RTLD_NOW]);
    if (library.isNull()) {
        const reason = callLibc('dlerror', 'pointer', [], []);
        throw new Error(reason.isNull() ? `${path} cannot be loaded` : reason.readUtf8String());
    }
    return call('asmevo_capture_version', 'int', [], []);
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
    load: open,

    // The same for a target that sees other files than we do. The descriptor stays open: by it, a later capture
    // finds the library again.
    loadImage(hex) {
        const SYS_memfd_create = 319;
        const descriptor = callLibc(
            'syscall', 'long', ['long', '...', 'pointer', 'uint'],
            [SYS_memfd_create, Memory.allocUtf8String('asmevo-library'), 0]).valueOf();
        if (descriptor < 0) {
            throw new Error('memory for the capture library cannot be made');
        }
        const bytes = hex.match(/../g).map(pair => parseInt(pair, 16));
        const image = Memory.alloc(bytes.length);
        image.writeByteArray(bytes);
        for (let at = 0; at < bytes.length;) {
            const written = callLibc(
                'write', 'long', ['int', 'pointer', 'size_t'],
                [Number(descriptor), image.add(at), bytes.length - at]);
            if (written <= 0) {
                throw new Error('the capture library cannot be written');
            }
            at += Number(written);
        }
        return open(`/proc/self/fd/${descriptor}`);
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
