; elementwise: vectorise 8
define internal void @"elementwise.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul1 = mul nsw i64 %r0, 8
  %first2 = insertelement <8 x i64> poison, i64 %mul1, i64 0
  %splat3 = shufflevector <8 x i64> %first2, <8 x i64> poison, <8 x i32> zeroinitializer
  %add4 = add nsw <8 x i64> %splat3, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %cmplt5 = icmp slt <8 x i64> %add4, splat (i64 37)
  %bits6 = bitcast <8 x i1> %cmplt5 to i8
  %some7 = icmp ne i8 %bits6, 0
  %seen8 = select i1 %some7, i64 %mul1, i64 0
  %p9 = getelementptr float, ptr %data1, i64 %seen8
  %call10 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p9, i32 4, <8 x i1> %cmplt5, <8 x float> zeroinitializer)
  %add11 = fadd <8 x float> %call10, splat (float 3.0)
  %mul12 = fmul <8 x float> %call10, %call10
  %call13 = call nsz <8 x float> @llvm.maximum.v8f32(<8 x float> %mul12, <8 x float> %add11)
  %bits14 = bitcast <8 x i1> %cmplt5 to i8
  %some15 = icmp ne i8 %bits14, 0
  %seen16 = select i1 %some15, i64 %mul1, i64 0
  %p17 = getelementptr float, ptr %data0, i64 %seen16
  call void @llvm.masked.store.v8f32.p0(<8 x float> %call13, ptr %p17, i32 4, <8 x i1> %cmplt5)
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more18 = icmp slt i64 %next0, 5
  br i1 %more18, label %loop0, label %exit0
exit0:
  ret void
}

define void @"elementwise"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"elementwise.body"(ptr %data0, ptr %data1)
  ret void
}

declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
attributes #0 = { nounwind "prefer-vector-width"="256" }
