package plugin

import "reflect"

// withEmptyLists returns a copy of a result whose lists are empty instead of null, as programs that read JSON expect. It replaces only the result
// itself and the direct fields of a struct, but no list inside of these.
func withEmptyLists(result any) any {
	from := reflect.ValueOf(result)
	if !from.IsValid() || from.Kind() != reflect.Slice && from.Kind() != reflect.Struct {
		return result
	}
	made := reflect.New(from.Type()).Elem()
	made.Set(from)
	fill(made)
	if made.Kind() == reflect.Struct {
		for i := range made.NumField() {
			fill(made.Field(i))
		}
	}
	return made.Interface()
}

// fill replaces a null list by an empty one.
func fill(value reflect.Value) {
	if value.CanSet() && value.Kind() == reflect.Slice && value.IsNil() {
		value.Set(reflect.MakeSlice(value.Type(), 0, 0))
	}
}
