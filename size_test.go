package weir

import "reflect"

func sizeOf[T any]() uintptr { return reflect.TypeFor[T]().Size() }
